"""A real dashboard server and a real browser for the tests of this room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_server import LAUNCH, free_port, wait_healthy
from services.need import need

from aiops.resources import resource

sys.path.insert(0, str(resource("app.py").parent))

# Quiet on a machine without a network, able to run as root.
CHROMIUM_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a dashboard that `aiops.dashboard.run` serves in a process of its own."""
    port = free_port()
    folder = tmp_path_factory.mktemp("dashboard")
    environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(port)], stdout=log, stderr=log, cwd=folder, env=environment
        )
        try:
            wait_healthy(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    leftovers = [path.name for path in folder.glob("aiops-upload-*")]
    assert not leftovers, "uploads must not outlive their analysis"


@pytest.fixture(scope="module")
def browser():
    """A real Chromium, driven by playwright; another module's must have ended before this one starts."""
    path = need("chromium", "chromium-browser", "google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """A fresh page; errors of its scripts, console errors and dialogs fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    trouble: list[str] = []
    opened.on("pageerror", lambda error: trouble.append(f"page error: {error}"))
    opened.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    opened.on("console", lambda line: trouble.append(f"console: {line.text}") if line.type == "error" else None)
    yield opened
    context.close()
    assert not trouble, trouble


@pytest.fixture
def screenshot(tmp_path: Path):
    """``screenshot(page, name)`` writes a PNG of the whole page, also to ``$AIOPS_SCREENSHOTS`` if that is set."""

    def take(page, name: str) -> Path:
        # Streamlit scrolls inside the window: only a window as high as its content shows everything.
        size = page.viewport_size
        height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight + 60")
        page.set_viewport_size({"width": size["width"], "height": min(int(height), 8000)})
        path = tmp_path / f"{name}.png"
        image = page.screenshot(path=path)
        page.set_viewport_size(size)
        extra = os.environ.get("AIOPS_SCREENSHOTS")
        if extra:
            Path(extra).mkdir(parents=True, exist_ok=True)
            Path(extra, path.name).write_bytes(image)
        return path

    return take
