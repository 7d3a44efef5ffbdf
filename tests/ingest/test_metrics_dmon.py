"""``nvidia-smi dmon`` and ``dcgmi dmon``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.model import NO_TIME, Case, Source

SMI = """\
#Date       Time        gpu     pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  sbecc  dbecc    pci
#YYYYMMDD   HH:MM:SS    Idx       W      C      C      %      %      %      %      %      %    MHz    MHz   errs   errs   errs
 20261103   11:20:31      0     641     61     78     99     71      0      0      0      0   2619   1980      2      0      0
 20261103   11:20:31      1      92     41     55      0      0      0      0      0      0   2619    345      -      -      0
#Date       Time        gpu     pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  sbecc  dbecc    pci
#YYYYMMDD   HH:MM:SS    Idx       W      C      C      %      %      %      %      %      %    MHz    MHz   errs   errs   errs
 20261103   11:20:32      0     655     62     78     98     70      0      0      0      0   2619   1965      2      1      0
 20261103   11:20:32      1      93     41     55      0      0      0      0      0      0   2619    345      -      -      0
"""
DCGM = """\
#Entity         GPUTL       TMPTR       POWER           XIDER       TENSO       NOSUCH
ID                          C           W
GPU 0           99          61          641.250         0           0.412       7
GPU 1           0           41          92.118          79          N/A         7
GPU 0           98          62          655.000         0           0.409       7
GPU 1           0                       92.300          79          N/A         7
GPU-I 3         11          0           0.000           0           0.100       7
"""
LINKS = """\
# Entity            NRELT     NRCLT
      Id
    GPU 0 LINK 3    17        0
    GPU 0 LINK 4    0         2
"""


def read(text: str, name: str = "gx-07_dmon.log") -> Case:
    case = Case(root="")
    case.sources.append(Source(0, name, Path(name), len(text), "metrics"))
    read_metrics(case.sources[0], text.encode(), case)
    return case


def values(case: Case, field: str, gpu: int) -> list[float | None]:
    block = case.series[0]
    row = next(i for i, entity in enumerate(block.entities) if entity.gpu == gpu)
    return [None if np.isnan(x) else round(float(x), 3) for x in block.values[block.fields.index(field), row]]


def test_nvidia_smi_dmon_with_date_and_time_is_a_series() -> None:
    case = read(SMI)
    assert case.coverage.problems == []
    assert case.series[0].times.tolist() == [1_793_704_831_000_000_000, 1_793_704_832_000_000_000]
    assert values(case, "DCGM_FI_DEV_POWER_USAGE", 0) == [641, 655]
    assert values(case, "DCGM_FI_DEV_GPU_UTIL", 1) == [0, 0]
    assert values(case, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 0) == [0, 1]
    assert values(case, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 1) == [None, None]
    assert values(case, "DCGM_FI_DEV_SM_CLOCK", 0) == [1980, 1965]


def test_without_times_the_last_sample_stays() -> None:
    case = read("".join(line[24:] + "\n" if line[:1] != "#" else "#" + line[22:] + "\n" for line in SMI.splitlines()))
    assert case.series[0].times.tolist() == [NO_TIME]
    assert values(case, "DCGM_FI_DEV_POWER_USAGE", 0) == [655]
    assert "only the last one is kept" in case.coverage.problems[0].reason


def test_dcgmi_dmon_by_the_short_names_of_the_fields() -> None:
    case = read(DCGM)
    assert case.sources[0].node == "gx-07"
    assert values(case, "DCGM_FI_DEV_GPU_UTIL", 0) == [98]
    assert values(case, "DCGM_FI_DEV_XID_ERRORS", 1) == [79]
    assert values(case, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0) == [0.409]
    assert values(case, "DCGM_FI_DEV_POWER_USAGE", 1) == [92.3]
    reasons = [problem.reason for problem in case.coverage.problems]
    assert any("NOSUCH" in reason for reason in reasons)
    assert not any("GPU-I" in reason for reason in reasons)


def test_a_blank_cell_is_no_sample_and_shifts_nothing() -> None:
    assert values(read(DCGM), "DCGM_FI_DEV_GPU_TEMP", 1) == [41]


def test_links_are_entities_of_their_own() -> None:
    block = read(LINKS).series[0]
    assert [(entity.gpu, entity.labels) for entity in block.entities] == [
        (0, (("nvlink", "3"),)),
        (0, (("nvlink", "4"),)),
    ]
    assert block.fields == [
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    ]


def test_a_line_that_does_not_fit_is_named() -> None:
    case = read(SMI + " 20261103   11:20:33      0     641\nKilled\n")
    assert [problem.line for problem in case.coverage.problems] == [9, 10]


@pytest.mark.parametrize(("text", "form"), [(SMI, "nvidia-smi dmon"), (DCGM, "dcgmi dmon"), (LINKS, "dcgmi dmon")])
def test_it_is_recognised(text: str, form: str) -> None:
    assert sniff_metrics(text.encode()) == form
    assert sniff_metrics(("root@gx-07:~# the command\n" + text).encode()) == form


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([SMI, DCGM, LINKS]), st.integers(0, 900), st.text(max_size=30))
def test_noise_never_raises_and_costs_only_its_line(whole: str, at: int, noise: str) -> None:
    case = read(whole[:at] + noise + whole[at:])
    for problem in case.coverage.problems:
        assert problem.source == "gx-07_dmon.log"
