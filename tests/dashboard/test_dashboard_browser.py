"""A real Chromium against the real server: click, upload, read; hostile text does nothing."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from report import samples

from aiops.resources import resource

pytestmark = pytest.mark.needs_chromium


def archive(folder: Path) -> bytes:
    """The folder as a tar.gz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder.parent)), recursive=False)
    return buffer.getvalue()


def upload(page, url: str, name: str, content: bytes) -> None:
    """Drop a file on the start page and press the button."""
    page.goto(url)
    with page.expect_response(lambda answer: "/_stcore/upload_file" in answer.url and answer.request.method == "PUT"):
        page.locator("input[type=file]").set_input_files(
            [{"name": name, "mimeType": "application/octet-stream", "buffer": content}]
        )
    page.get_by_role("button", name="Analyse").click()


def analyse(page, url: str, name: str, content: bytes) -> None:
    """Drop a file on the start page and wait for the incident page."""
    upload(page, url, name, content)
    page.locator(".aiops-source").wait_for()


def test_upload_to_incident(page, dashboard: str, screenshot) -> None:
    bundle = archive(resource("fixtures") / "xid79-slurm" / "bundle")
    analyse(page, dashboard, "bundle.tar.gz", bundle)
    head = page.locator(".aiops-head")
    assert "GPU 3 of fjord-021" in head.inner_text() and "gpu.off_bus" in head.inner_text()
    page.get_by_test_id("stVegaLiteChart").first.locator("canvas, svg").first.wait_for()
    page.locator("[class*='st-key-action-1']").get_by_role("button", name="Copy to clipboard").wait_for()

    page.locator(".aiops-story a.aiops-ref, .aiops-cascade a.aiops-ref").first.click()
    page.locator(".aiops-evidence details[open] .hit").wait_for()
    image = screenshot(page, "dashboard-incident")
    assert image.stat().st_size > 50_000

    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    saved = json.loads(Path(download.value.path()).read_bytes())
    assert saved["schema"] == "aiops.report/v1" and saved["incidents"][0]["culprit"]["node"] == "fjord-021"

    page.get_by_role("link", name="Coverage").click()
    page.locator(".aiops-table").get_by_text("kernel/fjord-021.log").wait_for()


def test_link_opens_a_bundled_incident(page, dashboard: str, screenshot) -> None:
    page.goto(f"{dashboard}/?incident=xid79-slurm&i=0")
    page.locator(".aiops-head").wait_for()
    assert "fjord-021" in page.locator(".aiops-head").inner_text()
    assert "incident=xid79-slurm" in page.url
    page.set_viewport_size({"width": 700, "height": 900})
    page.get_by_test_id("stVegaLiteChart").first.locator("canvas, svg").first.wait_for()
    wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert wide <= 700, "nothing sticks out of a narrow window"
    screenshot(page, "dashboard-narrow")


def test_hostile_bundle_is_shown_as_text(page, dashboard: str, screenshot) -> None:
    evil = (
        "<script>window.pwned=1</script><img src=x onerror='window.pwned=2'> [go](javascript:window.pwned=3) "
        "**bold** :red[colour] :material/delete: $x^2$"
    )
    log = "".join(
        f"Nov 28 03:14:0{n} n7 kernel: {line}\n"
        for n, line in enumerate(
            (evil, f"NVRM: Xid (PCI:0000:ab:00): 79, pid=1, name={evil}, GPU has fallen off the bus.", evil)
        )
    )
    analyse(page, dashboard, "<img src=x onerror=alert(1)>.log", log.encode())
    page.locator(".aiops-evidence details").first.click()
    body = page.locator("body").inner_text()
    assert "<script>window.pwned=1</script>" in body and "**bold** :red[colour] :material/delete: $x^2$" in body
    assert page.evaluate("window.pwned") is None
    assert page.locator("a[href^='javascript:'], img[src='x'], .aiops-evidence script").count() == 0
    screenshot(page, "dashboard-hostile")


def test_hostile_report_is_shown_as_text(page, dashboard: str) -> None:
    evil = "<img src=x onerror='window.pwned=4'>**bold** :red[colour]"
    report = samples.two_incidents()
    for case in report.incidents:
        case.title = case.narrative.text = evil
        for action in case.actions:
            action.why, action.commands = evil, [evil]
        for entry in case.timeline:
            entry.entity = entry.text = evil
    analyse(page, dashboard, "report.json", report.to_json())
    page.get_by_test_id("stVegaLiteChart").first.locator("canvas, svg").first.wait_for()
    page.get_by_test_id("stSelectbox").click()
    options = page.get_by_role("option")
    assert options.count() == 2 and evil in options.first.inner_text()
    options.nth(1).click()
    page.get_by_text("ClusterQueue research").first.wait_for()
    assert evil in page.locator(".aiops-head .value").first.inner_text()
    assert page.evaluate("window.pwned") is None and page.locator("img[src='x']").count() == 0


def test_unusable_upload_is_a_message(page, dashboard: str, screenshot) -> None:
    upload(page, dashboard, "noise.bin", bytes(range(256)) * 16)
    message = page.get_by_role("alert").last
    message.wait_for()
    assert "This input cannot be analysed" in message.inner_text()
    assert "Traceback" not in page.locator("body").inner_text()
    screenshot(page, "dashboard-error")
