"""The built-in catalog is clean, and a site's mistakes are named in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.catalog.documents import read_documents
from aiops.catalog.lint import lint_catalog, signals_of_line
from aiops.errors import CatalogError
from aiops.model.finding import Role
from aiops.resources import catalog_dir

GOOD = """
- id: site.battery
  title: "The cache battery of {host} is empty"
  match: 'raid: BBU of (?P<host>[\\w-]+) is empty'
  in: [kernel]
  severity: error
  about: node
  examples: ["raid: BBU of n7 is empty"]
  source: "vendor manual"
"""


def site(tmp_path: Path, signals: str = "", failures: str = "") -> Path:
    (tmp_path / "signals").mkdir()
    (tmp_path / "signals" / "site.yaml").write_text(signals, encoding="utf-8")
    if failures:
        (tmp_path / "failures.yaml").write_text(failures, encoding="utf-8")
    return tmp_path


def test_builtin_catalog_has_no_mistakes() -> None:
    assert lint_catalog(load_catalog()) == []


def test_every_class_of_the_catalog_is_in_the_taxonomy_with_its_checkpoint_rule(root: Path) -> None:
    taxonomy = root.parent / "shared" / "reference" / "taxonomy.csv"
    if not taxonomy.exists():
        pytest.skip("the shared taxonomy is not here")
    import csv

    rows = {row["id"]: row for row in csv.DictReader(taxonomy.open(encoding="utf-8"))}
    for failure in load_catalog().failures.values():
        assert failure.id in rows
        rule = rows[failure.id]["checkpoint_rule"]
        assert rule == "n/a" or failure.checkpoint in rule.split("/"), failure.id


@pytest.mark.parametrize("failure", sorted(load_catalog().failures))
def test_each_class_with_a_test_line_is_found_by_it(failure: str) -> None:
    catalog = load_catalog()
    entry = catalog.failures[failure]
    if not entry.test.startswith("line: ") or entry.test.startswith("line: none"):
        return
    signs = {cause.sign for cause in entry.causes}
    hit = {signal.id for signal, _ in signals_of_line(catalog, entry.test.removeprefix("line: "))}
    # lines that a detector reads (links, process ends) become a sign of another name
    readers = {
        "kernel.mlx5_link_down",
        "srun.task_exit",
        "slurm.node_not_responding",
        "launcher.signal",
        "py.traceback",
    }
    assert hit & (signs | readers), f"{entry.test} hits {hit}, but the class knows {signs}"


def test_a_site_adds_a_signal_and_a_class_without_code(tmp_path: Path) -> None:
    failures = """
- id: site.battery
  title: Empty cache battery
  culprit: node
  hardware: true
  causes: [{sign: site.battery, weight: 7}]
  checkpoint: C0
  requeue: exclude_nodes
  playbook: replace_node
  source: "vendor manual"
  test: "line: raid: BBU of n7 is empty"
"""
    catalog = load_catalog((site(tmp_path, GOOD, failures),))
    assert lint_catalog(catalog) == []
    assert catalog.by_id["site.battery"].role is Role.ROOT
    assert [f.id for f, _ in catalog.causes_by_sign["site.battery"]] == ["site.battery"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("raid: BBU of (?P<host>[\\w-]+) is empty", "BBU\\s(?P<host>[\\w-]+) is empty"), "instead of \\s"),
        (("raid: BBU of (?P<host>[\\w-]+) is empty", "BBU (?=of) is empty"), "look-ahead"),
        (("raid: BBU of (?P<host>[\\w-]+) is empty", "BBU of [^x]+ is empty"), "write [^\\nx]"),
        (("BBU of n7 is empty", "another line"), "the example does not match"),
        (("raid: BBU of (?P<host>[\\w-]+) is empty", "[0-9]+ .*"), "hardly any literal text"),
    ],
)
def test_each_mistake_is_a_sentence(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    mistakes = lint_catalog(load_catalog((site(tmp_path, GOOD.replace(*change)),)))
    assert any(sentence in mistake and "site.yaml: signal site.battery" in mistake for mistake in mistakes), mistakes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- id: a\n  matches: x\n", "unknown key 'matches'"),
        ("- id: a\n", "'title' is missing"),
        ("id: a\n", "must be a list"),
        ("- id: [\n", "not readable as YAML"),
        (GOOD.replace("[kernel]", "[dmesg]"), "'in' knows"),
        (GOOD.replace("severity: error", "severity: bad"), "is no severity"),
    ],
)
def test_malformed_entries_name_file_and_entry(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(CatalogError, match="site.yaml") as caught:
        load_catalog((site(tmp_path, text),))
    assert sentence in str(caught.value)


def test_lint_command_exits_with_2_and_names_the_mistake(aiops, tmp_path: Path) -> None:
    result = aiops("catalog", "lint", "--catalog", site(tmp_path, GOOD.replace("n7 is empty", "other")))
    assert result.returncode == 2
    assert b"the example does not match" in result.stdout


def test_files_read_before_mean_the_same_and_a_changed_one_is_read_anew(tmp_path: Path) -> None:
    cache, site = tmp_path / "cache", tmp_path / "site"
    (site / "signals").mkdir(parents=True)
    text = (
        "- id: site.battery\n  title: 2026-08-01\n  match: 'raid: BBU empty$'\n  in: [kernel]\n  says: {cells: 1, volts: 1.0, ok: true}\n"
        "  examples: ['raid: BBU empty']\n  source: manual\n"
    )
    path = site / "signals" / "site.yaml"
    path.write_text(text.replace("2026-08-01", "Empty"))

    def read(path: Path) -> str:
        return repr(read_documents([*sorted((catalog_dir() / "signals").glob("*.yaml")), path], cache))

    first = read(path)
    assert len(list(cache.glob("catalog-*.json"))) == 1
    assert read(path) == first
    path.write_text(text.replace("2026-08-01", "Worn"))
    assert "Worn" in read(path) and "Worn" not in first
    path.write_text(text)  # a date has no JSON: not kept, read as YAML each time
    assert "datetime.date(2026, 8, 1)" in read(path) and "datetime.date(2026, 8, 1)" in read(path)
    assert len(list(cache.glob("catalog-*.json"))) == 2
    for kept in cache.glob("catalog-*.json"):
        kept.write_bytes(b"{broken")
    path.write_text(text.replace("2026-08-01", "Empty"))
    assert read(path) == first


def test_lint_says_that_a_site_replaces_a_built_in_entry_and_passes(aiops, tmp_path: Path) -> None:
    result = aiops("catalog", "lint", "--catalog", site(tmp_path, GOOD.replace("site.battery", "kernel.segfault")))
    assert result.returncode == 0
    assert b"note: site.yaml: signal kernel.segfault takes the place of the one in kernel.yaml" in result.stdout


def test_lint_names_patterns_that_slow_every_scan_and_passes(aiops, tmp_path: Path) -> None:
    slow = GOOD.replace("raid: BBU of (?P<host>[\\w-]+) is empty", "worker (?P<host>[0-9]+) queue").replace(
        "raid: BBU of n7 is empty", "worker 7 queue"
    )
    result = aiops("catalog", "lint", "--catalog", site(tmp_path, slow))
    assert result.returncode == 0, result.stdout
    assert b"note: site.yaml: signal site.battery: the scanner stops at" in result.stdout
    # whoever adds an entry reads notes about it, not about all built-in ones
    assert result.stdout.count(b"note: ") == 1


def test_one_id_twice_in_one_directory_is_a_mistake(aiops, tmp_path: Path) -> None:
    result = aiops("catalog", "lint", "--catalog", site(tmp_path, GOOD + GOOD))
    assert result.returncode == 2
    assert b"signal site.battery: the id stands in site.yaml as well" in result.stdout
