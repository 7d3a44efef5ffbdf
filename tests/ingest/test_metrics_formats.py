"""Each metrics format is recognised by content and read to the same arrays; damage costs no more than itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.model import NO_TIME, Case, SeriesBlock, Source

T0 = 1_785_571_200
TEMP, UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL"


def read(tmp_path: Path, data: bytes | str, name: str = "metrics", node: str | None = None) -> Case:
    data = data.encode() if isinstance(data, str) else data
    path = tmp_path / "source"
    path.write_bytes(data)
    case = Case(root=str(tmp_path), sources=[Source(0, name, path, len(data), "metrics", node=node)])
    read_metrics(case.sources[0], memoryview(data), case)
    return case


def only(case: Case) -> SeriesBlock:
    assert len(case.series) == 1
    return case.series[0]


def labels(gpu: int = 0, host: str = "n1", name: str = TEMP, **more: str) -> dict[str, str]:
    return {
        "__name__": name,
        "gpu": str(gpu),
        "UUID": f"GPU-{host}-{gpu}",
        "Hostname": host,
        "pci_bus_id": f"00000000:{0x18 + gpu:02X}:00.0",
        **more,
    }


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> dict[str, object]:
    return {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": metric, "values": [list(pair) for pair in values]} for metric, values in series],
        },
    }


TWO = matrix((labels(0), [(T0, "60"), (T0 + 30, "61.5")]), (labels(1), [(T0, "70"), (T0 + 30, "71")]))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TWO),
        json.dumps(TWO, separators=(",", ":")),
        json.dumps(TWO, indent=2),
        json.dumps([TWO]),
        json.dumps({"data": {"result": TWO["data"]["result"]}}),  # type: ignore[index]
        json.dumps(TWO["data"]["result"]),  # type: ignore[index]
        "\ufeff" + json.dumps(TWO),
        "\n".join(
            json.dumps(matrix((labels(g), [(T0, v), (T0 + 30, w)])), separators=(",", ":"))
            for g, v, w in ((0, "60", "61.5"), (1, "70", "71"))
        ),
        json.dumps(
            {
                "status": "success",
                "data": {
                    "resultType": "matrix",
                    "result": [
                        {"values": [[T0, "60"], [T0 + 30, "61.5"]], "metric": labels(0)},
                        {"metric": labels(1), "values": [[T0, "70"], [T0 + 30, "71"]], "histograms": []},
                    ],
                },
            }
        ),
    ],
    ids=["json", "compact", "pretty", "list", "data only", "bare series", "bom", "lines", "other order"],
)
def test_every_spelling_of_a_range_answer_is_the_same(tmp_path: Path, text: str) -> None:
    assert sniff_metrics(text.encode()[:4096]) == "prometheus_json"
    case = read(tmp_path, text)
    block = only(case)
    assert block.fields == [TEMP] and block.units == ["C"] and block.counters == [False]
    assert block.times.tolist() == [T0 * 10**9, (T0 + 30) * 10**9]
    assert block.values.dtype == np.float32 and block.values[0].tolist() == [[60, 61.5], [70, 71]]
    assert [(e.node, e.gpu, e.uuid, e.pci) for e in block.entities] == [
        ("n1", 0, "GPU-n1-0", "0000:18:00"),
        ("n1", 1, "GPU-n1-1", "0000:19:00"),
    ]
    assert not case.coverage.problems
    source = case.sources[0]
    assert (source.first_ts, source.last_ts, source.node) == (T0 * 10**9, (T0 + 30) * 10**9, "n1")
    assert case.topology.gpu_pci == {("n1", 0): "0000:18:00", ("n1", 1): "0000:19:00"}
    assert case.topology.gpu_uuid["n1", "0000:19:00"] == "GPU-n1-1"
    assert case.topology.nodes == {"n1": {"metrics"}}


def test_an_instant_answer_is_one_column(tmp_path: Path) -> None:
    answer = {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": labels(g), "value": [T0 + 0.25, str(60 + g)]} for g in (1, 0)],
        },
    }
    block = only(read(tmp_path, json.dumps(answer, separators=(",", ":"))))
    assert block.times.tolist() == [T0 * 10**9 + 250_000_000]
    assert block.values[0].tolist() == [[60], [61]]


def test_series_with_own_times_share_one_grid_with_gaps(tmp_path: Path) -> None:
    block = only(
        read(tmp_path, json.dumps(matrix((labels(0), [(T0, "1"), (T0 + 60, "3")]), (labels(1), [(T0 + 30, "5")]))))
    )
    assert (block.times // 10**9).tolist() == [T0, T0 + 30, T0 + 60]
    np.testing.assert_array_equal(block.values[0], [[1, np.nan, 3], [np.nan, 5, np.nan]])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("NaN", None),
        ("+Inf", None),
        ("-Inf", None),
        ("1e3", 1000.0),
        ("2147483632", None),
        ("2147483635", None),
        ("9223372036854775792", None),
        ("9.223372036854776e+18", None),
        ("140737488355328", None),
        ("0", 0.0),
        ("2147483600", 2147483600.0),
    ],
)
def test_absent_is_not_zero_and_blank_is_absent(tmp_path: Path, written: str, kept: float | None) -> None:
    values = only(read(tmp_path, json.dumps(matrix((labels(0), [(T0, "60"), (T0 + 30, written)]))))).values[0, 0]
    assert values[0] == 60
    assert np.isnan(values[1]) if kept is None else values[1] == np.float32(kept)


@pytest.mark.parametrize("written", ["DCGM_FI_DEV_GPU_TEMP_CELSIUS", "nvidia_smi_temperature_gpu", TEMP])
def test_renamed_metrics_have_one_name(tmp_path: Path, written: str) -> None:
    assert only(read(tmp_path, json.dumps(matrix((labels(0, name=written), [(T0, "60")]))))).fields == [TEMP]


def test_other_units_are_converted(tmp_path: Path) -> None:
    block = only(
        read(
            tmp_path,
            json.dumps(
                matrix(
                    (
                        {
                            "__name__": "nvidia_smi_memory_used_bytes",
                            "uuid": "1b0aaaea-b5d5-a1ab-efad-a96511c5a058",
                            "gpu": "0",
                            "node": "n1",
                        },
                        [(T0, str(80 << 30))],
                    )
                )
            ),
        )
    )
    assert block.fields == ["DCGM_FI_DEV_FB_USED"] and block.values[0, 0, 0] == 80 * 1024
    assert block.entities[0].uuid == "GPU-1b0aaaea-b5d5-a1ab-efad-a96511c5a058"


@pytest.mark.parametrize(
    ("more", "node"),
    [
        ({"Hostname": "n7"}, "n7"),
        ({"hostname": "n7"}, "n7"),
        ({"node": "n7", "instance": "10.0.0.1:9400"}, "n7"),
        ({"instance": "n7:9400"}, "n7"),
        ({"exported_instance": "n7:9400", "instance": "gateway:80"}, "n7"),
        ({"Hostname": "dcgm-exporter-x7k2p", "node": "n7"}, "n7"),
        ({"Hostname": "gpu-agent-0", "pod": "gpu-agent-0", "node": "n7"}, "n7"),
        ({"Hostname": "n7;reboot"}, None),
        ({}, None),
    ],
)
def test_the_node_by_whatever_label_names_it(tmp_path: Path, more: dict[str, str], node: str | None) -> None:
    metric = {"__name__": TEMP, "gpu": "0", "UUID": "GPU-1", **more}
    assert only(read(tmp_path, json.dumps(matrix((metric, [(T0, "60")]))))).entities[0].node == node


def test_pods_come_and_go_but_the_gpu_stays(tmp_path: Path) -> None:
    case = read(
        tmp_path,
        json.dumps(
            matrix(
                (labels(0, exported_pod="train-1", pod="dcgm-exporter-abc"), [(T0, "60")]),
                (labels(0, pod="dcgm-exporter-abc"), [(T0 + 30, "61")]),
            )
        ),
    )
    block = only(case)
    assert block.values[0].tolist() == [[60, 61]] and block.entities[0].pod == "train-1"


def test_an_index_that_moves_to_another_gpu_keeps_both(tmp_path: Path) -> None:
    moved = {**labels(5), "UUID": "GPU-n1-6", "pci_bus_id": "00000000:1E:00.0"}
    case = read(tmp_path, json.dumps(matrix((moved, [(T0 + 60, "61")]), (labels(5), [(T0, "60")]))))
    assert [e.uuid for e in only(case).entities] == ["GPU-n1-5", "GPU-n1-6"]
    assert case.topology.gpu_pci == {("n1", 5): "0000:1d:00"}  # the first holder


def test_mig_slices_and_links_are_entities_of_their_own(tmp_path: Path) -> None:
    block = only(
        read(
            tmp_path,
            json.dumps(
                matrix(
                    (labels(0, GPU_I_ID="1", GPU_I_PROFILE="3g.40gb"), [(T0, "1")]),
                    (labels(0, GPU_I_ID="2", GPU_I_PROFILE="3g.40gb"), [(T0, "2")]),
                    (labels(0), [(T0, "3")]),
                )
            ),
        )
    )
    assert block.values[0].ravel().tolist() == [3, 1, 2]


def test_gpu_series_and_others_stand_in_blocks_of_their_own(tmp_path: Path) -> None:
    case = read(
        tmp_path,
        json.dumps(
            matrix(
                (labels(0), [(T0, "60")]),
                (
                    {"__name__": "node_infiniband_state_id", "device": "mlx5_0", "port": "1", "instance": "n1:9100"},
                    [(T0, "4")],
                ),
                ({"instance": "n1:9100"}, [(T0, "1.5")]),
            )
        ),
    )
    gpu, other = case.series
    assert gpu.fields == [TEMP]
    assert other.fields == ["expression", "node_infiniband_state_id"]
    assert [(e.node, e.device) for e in other.entities] == [("n1", None), ("n1", "mlx5_0")]


def test_a_truncated_answer_keeps_all_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(TWO, separators=(",", ":"))
    case = read(tmp_path, text[: text.index('"71"')])
    np.testing.assert_array_equal(only(case).values[0], [[60, 61.5], [70, np.nan]])
    (problem,) = case.coverage.problems
    assert "1 series are whole, 1 samples of 1 damaged ones were kept" in problem.reason and "byte" in problem.reason


def test_a_truncated_pretty_answer_too(tmp_path: Path) -> None:
    text = json.dumps(TWO, indent=1)
    case = read(tmp_path, text[: text.index('"71"')])
    np.testing.assert_array_equal(only(case).values[0], [[60, 61.5], [70, np.nan]])
    assert len(case.coverage.problems) == 1


def test_damage_in_the_middle_costs_one_series(tmp_path: Path) -> None:
    text = json.dumps(matrix(*((labels(g), [(T0, "60"), (T0 + 30, "61")]) for g in range(3))), separators=(",", ":"))
    second = text.index('"UUID":"GPU-n1-1"')
    hole = text.index('"61"', second)
    case = read(tmp_path, text[:hole] + "\x00garbage" + text[hole + 4 :])
    np.testing.assert_array_equal(only(case).values[0], [[60, 61], [60, np.nan], [60, 61]])
    assert len(case.coverage.problems) == 1


def test_one_damaged_line_of_many_is_named(tmp_path: Path) -> None:
    lines = [json.dumps(matrix((labels(g), [(T0, "60")])), separators=(",", ":")) for g in range(3)]
    lines[1] = lines[1][:-5]
    case = read(tmp_path, "\n".join(lines))
    assert len(only(case).entities) == 3
    assert [p.line for p in case.coverage.problems] == [2]


def test_a_refusal_and_warnings_of_prometheus_are_told(tmp_path: Path) -> None:
    text = '{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}'
    assert sniff_metrics(text.encode()) == "prometheus_json"
    case = read(tmp_path, text)
    assert "exceeded maximum resolution" in case.coverage.problems[0].reason
    case = read(tmp_path, json.dumps({**TWO, "warnings": ["store 3 is down"]}))
    assert "store 3 is down" in case.coverage.problems[0].reason and case.series


def test_millions_of_times_do_not_make_a_huge_grid(tmp_path: Path) -> None:
    """Each of 400 GPUs has its own 400 times: as one grid that would be 64 million cells."""
    series = [(labels(g, host=f"n{g}"), [(T0 + g + 1000 * i, "1") for i in range(400)]) for g in range(400)]
    case = read(tmp_path, json.dumps(matrix(*series), separators=(",", ":")))
    assert sum(int(np.isfinite(b.values).sum()) for b in case.series) == 160_000
    assert sum(b.values.size for b in case.series) < 10_000_000


EXPOSITION = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b",pci_bus_id="00000000:2D:00.0",Hostname="n1"} 71
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",pci_bus_id="00000000:0F:00.0",Hostname="n1"} 65
# TYPE my_app_events counter
my_app_events{text="a \\"quoted\\" }, \\\\ and\\nnewline"} 3
plain_gauge 1.5
"""


def test_a_scrape_is_a_snapshot_with_the_lines_as_proof(tmp_path: Path) -> None:
    assert sniff_metrics(EXPOSITION.encode()) == "exposition"
    case = read(tmp_path, EXPOSITION)
    gpu, other = case.series
    assert gpu.times.tolist() == [NO_TIME] and gpu.values[0].tolist() == [[65], [71]]
    assert gpu.lines[0, 1] == 3 and gpu.text[0, 1] == EXPOSITION.splitlines()[2]
    assert other.fields == ["my_app_events", "plain_gauge"] and other.counters == [True, False]
    assert dict(other.entities[1].labels)["text"] == 'a "quoted" }, \\ and\nnewline'
    assert case.sources[0].first_ts == NO_TIME and case.sources[0].lines == 7
    assert not case.coverage.problems


@pytest.mark.parametrize("stamp", [f"{T0}000", f"{T0}.000", f"{T0}"])
def test_time_stamps_in_milliseconds_or_seconds(tmp_path: Path, stamp: str) -> None:
    line = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} '
    block = only(read(tmp_path, f'{line}65 {stamp}\n{line}66 {T0 + 30}000 # {{trace="x"}} 1\n# EOF\n'))
    assert block.times.tolist() == [T0 * 10**9, (T0 + 30) * 10**9] and block.values[0].tolist() == [[65, 66]]


def test_broken_lines_of_a_scrape_are_named_and_cost_only_themselves(tmp_path: Path) -> None:
    lines = EXPOSITION.splitlines()
    lines.insert(3, 'DCGM_FI_DEV_GPU_TEMP{gpu="9",UUID="GPU-z"')
    lines.insert(4, 'DCGM_FI_DEV_GPU_TEMP{gpu="8",UUID="GPU-y"} warm')
    case = read(tmp_path, "\n".join(lines))
    assert [p.line for p in case.coverage.problems] == [4, 5]
    assert case.series[0].values[0].tolist() == [[65], [71]]


def test_blank_and_special_values_of_a_scrape(tmp_path: Path) -> None:
    text = "".join(
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="{g}",UUID="GPU-{g}"}} {v}\n'
        for g, v in enumerate(("65", "NaN", "+Inf", "2147483632"))
    )
    values = only(read(tmp_path, text)).values[0, :, 0]
    assert values[0] == 65 and np.isnan(values[1:]).all()


LONG = """timestamp,host,gpu,temp_c,power_w,sm_mhz,util_pct,fb_used_mib,xid,throttle
2026-08-01T08:00:30Z,n1,1,71,610.5,1980,99,70000,0,0x0000000000000004
2026-08-01T08:00:00Z,n1,0,60,600.0,1980,98,70000,0,SW Power Cap | HW Thermal Slowdown
2026-08-01T08:00:00Z,n1,1,70,610.0,1965,100,70000,79,Not Active
"""


def test_a_table_with_a_row_for_each_gpu_and_time(tmp_path: Path) -> None:
    assert sniff_metrics(LONG.encode()) == "gpu_csv"
    case = read(tmp_path, LONG)
    block = only(case)
    plane = {name: block.values[i] for i, name in enumerate(block.fields)}
    assert (block.times // 10**9).tolist() == [T0, T0 + 30]
    np.testing.assert_array_equal(plane[TEMP], [[60, np.nan], [70, 71]])
    np.testing.assert_array_equal(plane["DCGM_FI_DEV_XID_ERRORS"], [[0, np.nan], [79, 0]])
    np.testing.assert_array_equal(plane["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"], [[0x44, np.nan], [0, 4]])
    assert not case.coverage.problems and case.topology.nodes.keys() == {"n1"}


NVIDIA_SMI = """timestamp, index, uuid, pci.bus_id, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], \
memory.used [MiB], temperature.gpu, ecc.errors.uncorrected.volatile.total, clocks_event_reasons.hw_thermal_slowdown
2026/08/01 08:00:00.500, 0, GPU-aa, 00000000:1B:00.0, 98 %, 665.50 W, 1980 MHz, 74016 MiB, 66, 0, Not Active
2026/08/01 08:00:00.500, 1, GPU-bb, 00000000:43:00.0, [GPU is lost], [N/A], 1110 MHz, 74018 MiB, 91, [N/A], Active
"""


def test_nvidia_smi_output(tmp_path: Path) -> None:
    assert sniff_metrics(NVIDIA_SMI.encode()) == "gpu_csv"
    block = only(read(tmp_path, NVIDIA_SMI, node="n3"))
    plane = {name: block.values[i, :, 0] for i, name in enumerate(block.fields)}
    assert block.times.tolist() == [T0 * 10**9 + 500_000_000]
    assert plane["DCGM_FI_DEV_POWER_USAGE"][0] == 665.5 and np.isnan(plane["DCGM_FI_DEV_POWER_USAGE"][1])
    assert np.isnan(plane[UTIL][1]) and plane[TEMP].tolist() == [66, 91]
    assert plane["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"].tolist() == [0, 0x40]
    assert [(e.node, e.gpu, e.pci) for e in block.entities] == [("n3", 0, "0000:1b:00"), ("n3", 1, "0000:43:00")]


def test_metric_and_value_columns(tmp_path: Path) -> None:
    text = (
        "time,metric,Hostname,gpu,value\n"
        f"{T0},{TEMP},n1,0,60\n{T0},DCGM_FI_DEV_GPU_UTIL_RATIO,n1,0,97\n{T0 + 60},{TEMP},n1,0,61\n"
    )
    assert sniff_metrics(text.encode()) == "gpu_csv"
    block = only(read(tmp_path, text))
    assert block.fields == [TEMP, UTIL]
    np.testing.assert_array_equal(block.values[:, 0], [[60, 61], [97, np.nan]])


def test_a_table_with_a_column_for_each_series(tmp_path: Path) -> None:
    text = (
        '"Time";"DCGM_FI_DEV_GPU_TEMP{Hostname=""n1"", gpu=""0""}";'
        '"DCGM_FI_DEV_GPU_TEMP{Hostname=""n1"", gpu=""1""}"\n'
        "2026-08-01 08:00:00;60;70\n2026-08-01 08:00:30;61;\n"
    )
    assert sniff_metrics(text.encode()) == "gpu_csv"
    np.testing.assert_array_equal(only(read(tmp_path, text)).values[0], [[60, 61], [70, np.nan]])


def test_broken_rows_of_a_table_are_named(tmp_path: Path) -> None:
    lines = LONG.splitlines()
    lines.insert(2, "2026-08-01T08:0")
    lines.insert(3, "yesterday,n1,0,60,600,1980,98,70000,0,0x4")
    case = read(tmp_path, "\n".join(lines))
    assert [p.line for p in case.coverage.problems] == [3, 4]
    assert only(case).values.shape == (7, 2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "{}",
        "[]",
        '{"schema": "aiops.collected/v1", "metrics": []}',
        '{"metric": "loss", "value": 3.1}',
        '{"kind": "List", "items": [{"metric": 1}]}',
        "step 100 loss 2.31\nstep 110 loss 2.30\n",
        "loss 2.31\ngrad_norm 0.5\n",
        "2026-08-01T08:00:00Z n1 kernel: NVRM: Xid (PCI:0000:a8:00): 79\n",
        "JobID|JobName|State|ExitCode\n1|train|FAILED|1:0\n",
        "step,loss,lr\n1,2.3,1e-4\n",
        "epoch,gpu_hours,cost\n1,3,4\n",
        "name,value\na,1\n",
        "\x00\x01\x02" + LONG,
        "#!/bin/bash\n# TYPE in your name\necho hi\n",
    ],
)
def test_other_content_is_not_taken_for_metrics(text: str) -> None:
    assert sniff_metrics(text.encode()) is None


def test_order_of_series_does_not_matter(tmp_path: Path) -> None:
    series = [(labels(g, host=h), [(T0, str(50 + g))]) for h in ("n2", "n1") for g in (3, 0, 1)]
    one, other = (only(read(tmp_path, json.dumps(matrix(*order)))) for order in (series, series[::-1]))
    assert one.entities == other.entities and (one.values == other.values).all()
    assert [(e.node, e.gpu) for e in one.entities] == [(h, g) for h in ("n1", "n2") for g in (0, 1, 3)]
