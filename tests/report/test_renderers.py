"""Renderers are found by name, whoever wrote them, and cost nothing until they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from report.samples import ALL, off_bus

from aiops.errors import InputError
from aiops.model.report import Report
from aiops.report import FORMATS, formats, renderer


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("sample", list(ALL))
def test_every_format_renders_every_sample(name: str, sample: str) -> None:
    assert renderer(name)(ALL[sample]()).endswith("\n")


def test_json_is_the_contract_itself() -> None:
    shown = renderer("json")(off_bus())
    assert shown.count("\n") == 1
    assert Report.from_json(shown.encode()) == off_bus()
    assert json.loads(renderer("json")(off_bus(), indent=True)) == json.loads(shown)


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown format 'pdf'; choose one of text, json, md, html, slack"):
        renderer("pdf")


def test_other_packages_add_formats_but_do_not_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoints(
        [
            EntryPoint("yaml", "json:dumps", "aiops.renderers"),
            EntryPoint("json", "json:loads", "aiops.renderers"),
            EntryPoint("json", "aiops.report.json:render", "aiops.renderers"),
        ]
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **wanted: theirs.select(**wanted))
    assert formats() == [*FORMATS, "yaml"]
    assert renderer("yaml") is json.dumps
    assert renderer("json").__module__ == "aiops.report.json"


@pytest.mark.parametrize("name", ["json", "md", "html", "slack"])
def test_a_renderer_imports_only_what_it_needs(name: str) -> None:
    code = (
        f"import sys; from aiops.report import renderer; renderer({name!r}); "
        "print([m for m in ('rich', 'pandas', 'numpy', 'pyarrow', 'streamlit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
