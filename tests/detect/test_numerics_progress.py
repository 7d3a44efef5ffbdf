"""Progress lines of many frameworks are read; what diverges is told from what is only loud."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.numerics import detect
from aiops.detect.progress import Point, progress_points
from aiops.ingest import open_case
from aiops.pipeline import analyze_paths


def points(folder: Path, text: str) -> list[Point]:
    (folder / "train.log").write_text(text, encoding="utf-8")
    with open_case([folder], Settings()) as case:
        return list(progress_points(case))


@pytest.mark.parametrize(
    ("line", "step", "loss", "norm"),
    [
        (
            " [2026-08-01 08:00:00] iteration      122/  250000 | consumed samples: 124 | elapsed time per iteration (ms): 8654.5 | "
            "learning rate: 9.15E-06 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 |",
            122,
            2.50422,
            0.231,
        ),
        (
            "[rank0]:[titan] 2026-08-01 08:00:00,123 - root - INFO - step: 10  loss:  4.12345  grad_norm:  1.2345",
            10,
            4.12345,
            1.2345,
        ),
        (
            "I0801 08:00:00.000000 140 metric_logger.py:9] completed step: 7, seconds: 4.1, TFLOP/s/device: 201, loss: 9.125",
            7,
            9.125,
            None,
        ),
        (
            "2026-08-01 08:00:00 | INFO | train_inner | epoch 001: 100 / 4000 loss=9.1, ppl=548, gnorm=1.2",
            None,
            9.1,
            1.2,
        ),
        ("{'loss': '2.3456', 'grad_norm': '1.23', 'learning_rate': '4.9e-05', 'epoch': '0.12'}", None, 2.3456, 1.23),
        ("Step 12 | loss:1.8231 lr:2e-05 tokens_per_second_per_gpu:812.1", 12, 1.8231, None),
        ("120/1000 [==>...] - ETA: 31s - loss: 2.3010 - step: 120", 120, 2.301, None),
    ],
)
def test_values_of_a_line(tmp_path: Path, line: str, step: int | None, loss: float, norm: float | None) -> None:
    found = points(tmp_path, line + "\n2026-08-01 08:00:09,000 INFO epoch ends\n")
    assert [(p.step, p.loss, p.grad_norm) for p in found] == [
        (step, pytest.approx(loss), pytest.approx(norm) if norm else None)
    ]


def test_each_update_of_a_bar_on_one_line_is_a_point(tmp_path: Path) -> None:
    bar = "\r".join(
        f"Epoch 0: {i}%| | {i}/100 [00:05<08:00, 2.0it/s, v_num=1, loss={3 - i / 10:.2f}]" for i in range(1, 9)
    )
    assert [p.loss for p in points(tmp_path, bar + "\n")] == [pytest.approx(3 - i / 10) for i in range(1, 9)]


def test_an_error_word_within_a_word_is_no_number(tmp_path: Path) -> None:
    text = "2026-08-01 08:00:00,000 INFO [rank0] step 1 loss 2.0 finance=nan-free banana\n" * 3
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    with open_case([tmp_path], Settings()) as case:
        assert {f.sign for f in detect(case, load_catalog())} == {"train.progress"}


def test_scale_that_settles_is_silence_and_one_that_falls_for_ever_is_not(tmp_path: Path) -> None:
    def signs(last: list[str]) -> set[str]:
        lines = [f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}" for scale in last]
        (tmp_path / "train.log").write_text(
            "2026-08-01 08:00:00 INFO epoch 1\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )
        with open_case([tmp_path], Settings()) as case:
            return {f.sign for f in detect(case, load_catalog())}

    assert signs(["65536.0", "32768.0", "16384.0", "8192.0", "4096.0"]) == set()
    assert signs(["65536.0", "1024.0", "32.0", "2.0", "0.5"]) == {"num.scale_low"}


def test_steps_printed_after_a_lasting_nan_are_no_sign_of_health(tmp_path: Path) -> None:
    lines = [
        f"2026-08-01 08:{minute:02d}:00,000 INFO [rank {rank}] step={minute} loss="
        + ("nan" if minute >= 20 else f"{2 + minute % 7 / 50:.4f}")
        for minute in range(60)
        for rank in range(2)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    report = analyze_paths([tmp_path])
    assert report.verdict == "incident"
    assert report.incidents[0].failure_class == "num.nan_global"
