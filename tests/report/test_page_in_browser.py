"""The HTML page in a real browser: it works with and without JavaScript, asks for nothing and runs nothing foreign."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report.hostile import MARKER, WEAPONS, Hostile
from report.samples import off_bus
from services.need import need

from aiops.report.html import render

pytestmark = pytest.mark.needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    program = need("chromium", "chromium-browser", "google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield running
        running.close()


class Visit:
    """An open page, and what it asked for and complained about."""

    def __init__(self, browser: Any, path: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.add_init_script(f"window.{MARKER} = () => {{ window.hit = true; }}")
        self.page.goto(path.as_uri() + fragment)


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(render(off_bus()), encoding="utf-8")
    return path


def test_the_page_asks_for_nothing_and_complains_about_nothing(browser: Any, page_file: Path) -> None:
    visit = Visit(browser, page_file)
    assert visit.requests == [page_file.as_uri()]
    assert visit.complaints == []
    assert visit.page.locator("h1").inner_text() == off_bus().incidents[0].title


@pytest.mark.parametrize("javascript", [True, False])
def test_a_link_opens_the_evidence_at_its_line(browser: Any, page_file: Path, javascript: bool) -> None:
    visit = Visit(browser, page_file, java_script_enabled=javascript)
    line = visit.page.locator("#i1e2")
    assert not line.is_visible()
    visit.page.locator(".story a", has_text="e2").click()
    line.wait_for(state="visible")
    assert "GPU has fallen off the bus" in line.inner_text()


def test_copy_gives_the_whole_command(browser: Any, page_file: Path) -> None:
    visit = Visit(browser, page_file, permissions=["clipboard-read", "clipboard-write"])
    button = visit.page.locator(".lead button.copy")
    button.click()
    visit.page.wait_for_function("document.querySelector('.lead button.copy').textContent === 'copied'")
    assert visit.page.evaluate("navigator.clipboard.readText()") == off_bus().incidents[0].actions[0].commands[0]


def test_without_javascript_there_are_no_dead_buttons(browser: Any, page_file: Path) -> None:
    visit = Visit(browser, page_file, java_script_enabled=False)
    assert visit.page.locator("button:visible").count() == 0


def test_dark_and_light_follow_the_system_and_the_button(browser: Any, page_file: Path) -> None:
    def background() -> str:
        return str(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    visit = Visit(browser, page_file, color_scheme="dark")
    dark = background()
    visit.page.locator("#theme").click()
    light = background()
    assert dark != light
    visit = Visit(browser, page_file, color_scheme="light")
    assert background() == light


def test_print_shows_everything_in_light(browser: Any, page_file: Path) -> None:
    visit = Visit(browser, page_file, color_scheme="dark", java_script_enabled=False)
    visit.page.emulate_media(media="print", color_scheme="dark")
    assert visit.page.locator("#i1e9").is_visible()
    assert visit.page.locator("text=scontrol cancel_reboot gpu-r07-n03").is_visible()


def test_a_phone_does_not_scroll_sideways(browser: Any, page_file: Path) -> None:
    visit = Visit(browser, page_file, viewport={"width": 360, "height": 700})
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("readable_times", [True, False])
@pytest.mark.parametrize("width", [1000, 360])
def test_a_hostile_report_runs_nothing_and_breaks_no_layout(
    browser: Any, tmp_path: Path, width: int, readable_times: bool
) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(Hostile("off_bus", WEAPONS, readable_times).report()), encoding="utf-8")
    visit = Visit(browser, path, viewport={"width": width, "height": 700})
    assert visit.page.evaluate("window.hit") is None
    assert visit.requests == [path.as_uri()]
    assert visit.complaints == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
