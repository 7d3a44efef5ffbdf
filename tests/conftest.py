"""Shared fixtures of the test suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# a busy machine is no failure; what else the environment chose (CI: the same examples each time) stays
settings.register_profile(
    "aiops", settings(settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
)
settings.load_profile("aiops")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _scanner_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One compiled scanner for the whole run, outside the user's own cache."""
    os.environ.setdefault("AIOPS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def aiops():
    """Run the real command line: ``aiops("analyze", path)`` returns the finished process."""

    def run(
        *args: object,
        input: bytes | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "aiops", *map(str, args)],
            input=input,
            capture_output=True,
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
            check=False,
        )

    return run
