"""Small text that stands for much: ranges of hosts, borders of tables, elements in elements. It costs no more than its size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzz.targets import within

from aiops.config import Settings, default_cache_dir
from aiops.ingest.gpu_diagnostics import read_diagnostics, sniff_diagnostics
from aiops.ingest.hostlist import HostlistError, expand_hostlist, hosts_in
from aiops.ingest.kubernetes_text import text_objects
from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.ingest.slurm import read_slurm
from aiops.ingest.slurm_values import node_names
from aiops.ingest.topology import sniff_topology
from aiops.ingest.unwrap import sniff_wrapped
from aiops.model import Case, Source
from aiops.pipeline import analyze_paths

TABLE = (
    "| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n"
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |\n"
)
XML = "<?xml version='1.0'?><nvidia_smi_log>"


@pytest.mark.parametrize(
    "text", ["n[0-999999999]", "n[1-99999]a[1-99999]", "n[1-2", "n]", "n" * 200_000 + "[0-99999]", "n" * 300]
)
def test_a_list_that_names_too_much_is_none(text: str) -> None:
    with pytest.raises(HostlistError):
        expand_hostlist(f"{text}[1-2]" if "[" not in text and "]" not in text else text)
    assert hosts_in("n[1-2]") == ["n1", "n2"] and hosts_in("n[1-2") == []


@pytest.mark.parametrize("nodes", ["n[0-999999999]", "n[1-2", "n" * 6000 + "[0-99999]"])
def test_a_log_of_a_controller_with_a_list_that_cannot_be_read(tmp_path: Path, nodes: str) -> None:
    (tmp_path / "slurmctld.log").write_text(
        f"[2026-08-01T08:00:00.000] error: Nodes {nodes} not responding\n"
        f"[2026-08-01T08:00:01.000] error: Nodes {nodes} not responding, setting DOWN\n"
        "[2026-08-01T08:00:02.000] error: Nodes n7 not responding, setting DOWN\n"
    )
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    assert report.verdict and not any(len(culprit.node or "") > 255 for i in report.incidents for culprit in i.culprits)


def test_equal_lists_of_many_jobs_are_kept_once() -> None:
    assert node_names("n[0-9999]") is node_names("n[0-9999]")
    rows = "".join(f"{job}|a|FAILED|0:0|n[0-9999]\n" for job in range(1, 2000))
    case = Case(root="", sources=[Source(0, "m", Path("m"), 0, "slurm")])
    with within(60):
        read_slurm(case.sources[0], f"JobID|JobName|State|ExitCode|NodeList\n{rows}".encode(), case)
    assert len(case.jobs) == 1999 and len(case.jobs[-1].nodes) == 10_000 and not case.coverage.problems


def test_different_lists_of_many_jobs_end_somewhere() -> None:
    rows = "".join(f"{job}|a|FAILED|0:0|n[{job}-99999]\n" for job in range(1, 100))
    case = Case(root="", sources=[Source(0, "m", Path("m"), 0, "slurm")])
    read_slurm(case.sources[0], f"JobID|JobName|State|ExitCode|NodeList\n{rows}".encode(), case)
    assert sum(len(job.nodes) for job in case.jobs) <= 5_000_000
    assert [problem.reason for problem in case.coverage.problems if "names of nodes" in problem.reason]


@pytest.mark.parametrize(
    "text",
    [
        TABLE + "| N/A N/A N/A " + "/|" * 3000 + "\n",
        TABLE + "|   1  NVIDIA" + " " * 200_000 + "\n",
        TABLE + "x@" * 30_000 + "\n",
        XML + "<a>" * 200_000,
        XML + "\n<?xml " * 200_000,
        "# gpu pwr\n# Idx W\n 0 641\n" + " " * 200_000 + "x\n",
        "timestamp,gpu,a" + " " * 100_000 + ",DCGM_FI_DEV_GPU_TEMP\n2026-08-01T08:00:00Z,0,1,2\n",
    ],
    ids=["borders", "blanks", "hosts", "elements", "documents", "indent", "header"],
)
def test_samples_of_long_lines(text: str) -> None:
    case = Case(root="", sources=[Source(0, "m", Path("m"), len(text), "metrics")])
    with within(20):
        sniff_metrics(text.encode()[: 1 << 16])
        read_metrics(case.sources[0], text.encode(), case)


@pytest.mark.parametrize("fill", [" ", "\t", "-", " -", "7"])
def test_sniffers_and_descriptions_take_long_lines(fill: str) -> None:
    line = (fill * 60_000)[:60_000] + "x"
    head = b"GPU0 X \n| Diagnostic  | Result |\nSwitchName=a Nodes=b\n" + line.encode() + b"\n"
    with within(20):
        for sniff in (sniff_diagnostics, sniff_topology, sniff_wrapped, sniff_metrics):
            sniff(head)
        described = f"Name: a\nParallelism: 1\nPods Statuses: {line}\nEvents:\n  Type Reason\n{line}\n  a b\n"
        assert list(text_objects(described))


@pytest.mark.parametrize("gpu", ["9" * 5000, "1000000000000", "-3", "²"])
def test_a_gpu_that_no_machine_has(gpu: str) -> None:
    error = {"children": {"Errors": {"children": {"Memory": {"value": "Failure", "overflow": ["x" * 100_000]}}}}}
    texts = {
        "dcgmi health": f"| Health Monitor Report |  |\n| GPU | |\n"
        f"| -> {gpu} | Failure |\n|    -> Memory | Failure |\n| | {'a ' * 50_000}|\n",
        "dcgmi health -j": json.dumps(
            {"body": {"GPU": {"children": {gpu: error}}}, "header": ["Health Monitor Report"]}
        ),
    }
    for form, text in texts.items():
        case = Case(root="", sources=[Source(0, "m", Path("m"), len(text), "diagnostics", form)])
        with within(20):
            read_diagnostics(case.sources[0], text.encode(), case)
        assert [event.fields.get("gpu") for event in case.events] == [None]


@pytest.mark.parametrize("fill", ["a", "7", " ", "a ", "="])
def test_pairs_and_rates_take_long_lines(fill: str) -> None:
    from aiops.detect import progress
    from aiops.ingest.metrics_exposition import _PLAIN_LABEL
    from aiops.ingest.topology_slurm import _PAIR

    line = (fill * 200_000)[:200_000] + "\n"
    with within(20):
        for pattern in (_PAIR, _PLAIN_LABEL, progress._RATE, progress._BAR, progress._STEP, *progress._KEYS.values()):
            for start in ("", "lm loss", "grad norm", "iteration", 'a="b",', "SwitchName=a "):
                pattern.findall(start + line)
    assert _PAIR.findall('SwitchName=a Nodes="n 1",x=2 y') == [("SwitchName", "a"), ("Nodes", '"n 1"'), ("x", "2")]
    assert progress._RATE.findall("12% 1.25s/it, 3 it/s") == [("1.25", "s/it"), ("3", "it/s")]


def test_a_table_reads_as_before() -> None:
    row = "| N/A   ERR!   P0            N/A  /  700W |   70112MiB /  81559MiB |     99%      Default |\n"
    case = Case(root="", sources=[Source(0, "m", Path("m"), 0, "metrics")])
    read_metrics(case.sources[0], (TABLE + row).encode(), case)
    assert {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_GPU_UTIL"} <= set(case.series[0].fields)


@pytest.mark.parametrize("name", ["a/" * 60_000 + "b", "a." * 60_000, "Europe/" * 9 + "Berlin"])
def test_a_zone_with_a_name_without_an_end(name: str) -> None:
    from aiops.ingest.case_yaml import zone_named

    assert zone_named(name) is None
    assert zone_named("Europe/Berlin") is not None


@pytest.mark.parametrize(
    ("value", "shown"), [(float("inf"), "inf"), (float("-inf"), "-inf"), (float("nan"), "nan"), (3.0, "3")]
)
def test_a_value_that_is_no_number_is_quoted(value: float, shown: str) -> None:
    from aiops.detect.metrics_evidence import _number

    assert _number(value) == shown
