"""The pages as Streamlit runs them, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from report import samples
from streamlit.testing.v1 import AppTest

from aiops.dashboard import TOKEN_VARIABLE
from aiops.model.report import Report
from aiops.resources import resource

APP = str(resource("app.py"))


@pytest.fixture(autouse=True)
def _uploads_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def start(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def button(app: AppTest, label: str):
    return next(item for item in app.button if item.label == label)


def upload(app: AppTest, *files: tuple[str, bytes]) -> AppTest:
    app.file_uploader[0].set_value([(name, content, "application/octet-stream") for name, content in files])
    return button(app, "Analyse").click().run()


def shown(app: AppTest) -> str:
    assert not app.exception, [item.message for item in app.exception]
    return "\n".join(item.value for item in app.html)


def open_report(report: Report) -> AppTest:
    return upload(start(), ("report.json", report.to_json()))


def test_start_page_offers_the_bundled_incidents() -> None:
    app = start()
    text = shown(app)
    names = [path.parent.name for path in resource("fixtures").glob("*/truth.yaml")]
    assert names and {f"open-{name}" for name in names} <= {item.key for item in app.button}
    assert "falls off the bus" in text


def test_choosing_a_bundled_incident_shows_it() -> None:
    app = start()
    next(item for item in app.button if item.key == "open-xid79-slurm").click().run()
    text = shown(app)
    assert app.query_params == {"incident": "xid79-slurm", "i": "0"}
    assert "gpu.off_bus" in text and "GPU 3 of fjord-021" in text and "Without the bad nodes" in text
    assert any("fjord-021" in item.value for item in app.code), "commands name the node"


def test_a_link_opens_a_bundled_incident() -> None:
    app = start(incident="xid79-slurm", i="0")
    assert "GPU 3 of fjord-021" in shown(app)


def test_a_healthy_job_is_no_incident() -> None:
    text = shown(start(incident="healthy-ugly"))
    assert "No incident" in text and "What this rests on" in text


def test_a_path_given_to_the_launcher_is_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = tmp_path / "night shift <b>7"
    case.mkdir()
    (case / "dmesg").write_text(
        "Nov 28 03:14:07 n7 kernel: NVRM: Xid (PCI:0000:ab:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"
    )
    monkeypatch.setattr("sys.argv", [APP, str(case), "relative", str(tmp_path / "gone")])
    app = start()
    assert "night shift &lt;b&gt;7" in shown(app)
    assert [item.key for item in app.button if item.key and "case" in item.key] == ["open-case-1"]
    next(item for item in app.button if item.key == "open-case-1").click().run()
    assert "gpu.off_bus" in shown(app) and app.query_params["incident"] == "case-1"


@pytest.mark.parametrize("key", ["../../etc", "/etc/passwd", "<b>x</b>", "no-such-incident"])
def test_a_link_cannot_name_a_path(key: str) -> None:
    text = shown(start(incident=key))
    assert "This link leads nowhere" in text and "<b>x" not in text


def test_a_lost_upload_is_explained() -> None:
    assert "This upload is gone" in shown(start(incident="upload"))


def test_unusable_input_is_a_message(tmp_path: Path) -> None:
    app = upload(start(), ("noise.bin", bytes(range(256)) * 16))
    text = shown(app)
    assert "This input cannot be analysed" in text
    assert str(tmp_path) not in text, "the server's directories are nobody's business"
    assert not list(tmp_path.glob("aiops-upload-*")), "the upload is gone"


def test_nothing_chosen_is_a_message() -> None:
    assert "Nothing to analyse yet" in shown(button(start(), "Analyse").click().run())


def test_pasted_lines_are_analysed() -> None:
    app = start()
    app.segmented_control[0].set_value("Pasted lines").run()
    app.text_area[0].set_value(
        "Nov 28 03:14:07 n7 kernel: NVRM: Xid (PCI:0000:ab:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"
    )
    text = shown(button(app, "Analyse").click().run())
    assert "gpu.off_bus" in text and "n7" in text


def test_a_saved_report_opens_as_it_is() -> None:
    app = open_report(samples.off_bus())
    text = shown(app)
    assert "GPU 5 of gpu-r07-n03" in text and "27.5 GPU-hours lost" in text
    assert len(app.get("vega_lite_chart")) == 4, "a timeline and three metric panels"
    assert [item.label for item in app.get("download_button")] == ["JSON", "Markdown", "HTML"]


def test_several_incidents_can_be_chosen_and_linked() -> None:
    app = open_report(samples.two_incidents())
    assert "IndexError" in shown(app)
    app.selectbox[0].select_index(1).run()
    assert "ClusterQueue research" in shown(app)
    assert app.query_params["i"] == "1"


def test_inconclusive_and_no_incident_have_pages_of_their_own() -> None:
    assert "kernel log of node-b" in shown(open_report(samples.inconclusive()))
    calm = open_report(samples.no_incident())
    assert "1,204 NCCL warnings" in shown(calm) and not calm.code


def test_coverage_page_lists_sources() -> None:
    app = open_report(samples.inconclusive())
    app.switch_page("dashboards/pages/coverage.py").run()
    text = shown(app)
    assert "archive is truncated" in text and "pods.tar.gz!rank9.log" in text
    app.text_input[0].set_value("rank11").run()
    assert "pods.tar.gz!rank9.log" not in shown(app)


def test_evidence_filter() -> None:
    app = open_report(samples.off_bus())
    app.text_input[0].set_value("watchdog").run()
    text = shown(app)
    assert 'id="ref-e5"' in text and 'id="ref-e2"' not in text


def test_a_password_stands_before_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "correct horse battery")
    app = start(incident="xid79-slurm")
    assert "fjord" not in shown(app) and not app.file_uploader
    app.text_input[0].set_value("wrong")
    app = button(app, "Enter").click().run()
    assert app.error and not app.file_uploader
    app.text_input[0].set_value("correct horse battery")
    assert "fjord-021" in shown(button(app, "Enter").click().run())
