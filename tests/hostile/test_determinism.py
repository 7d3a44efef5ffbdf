"""The same evidence gives the same bytes: whatever the hash seed, locale, zone, directory, file times and file order are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
ELSEWHERE = [
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "POSIX", "LANG": "C"},
    {"PYTHONHASHSEED": "7", "TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "COLUMNS": "40"},
]


@pytest.mark.parametrize("fixture", ["xid79-kubernetes", "thermal-straggler"])
@pytest.mark.parametrize("form", ["json", "html"])
def test_same_bytes(aiops: Run, root: Path, tmp_path: Path, fixture: str, form: str) -> None:
    original = root / "fixtures" / fixture / "bundle"
    expected = aiops("analyze", original, "--format", form, env={"PYTHONHASHSEED": "0"}).stdout
    assert expected
    for number, env in enumerate(ELSEWHERE):
        copy = tmp_path / str(number) / "bundle"
        copy.mkdir(parents=True)
        files = sorted(path for path in original.rglob("*") if path.is_file())
        for at, path in enumerate(files[::-1] if number % 2 else files):  # made in another order
            target = copy / path.relative_to(original)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.utime(target, (1_000_000_000 + at, 1_785_000_000 - 977 * at))
        got = aiops("analyze", "bundle", "--format", form, env=env, cwd=copy.parent).stdout
        assert got == expected


def test_two_analyses_at_once_share_a_cache(root: Path, tmp_path: Path) -> None:
    """Both make the compiled rules at the same time; both answer, and the cache holds no leftovers."""
    import sys

    env = {**os.environ, "AIOPS_CACHE_DIR": str(tmp_path / "cache")}
    words = [
        sys.executable,
        "-m",
        "aiops",
        "analyze",
        str(root / "fixtures" / "ecc-dbe" / "bundle"),
        "--format",
        "json",
    ]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, env=env) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0] for process in running]
    assert answers[0] == answers[1] and json.loads(answers[0])["verdict"] == "incident"
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name.startswith(".")]
