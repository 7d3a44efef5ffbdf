"""Every sign fires on its mechanism, names the GPU, and proves it; healthy fleets stay silent."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from metrics_fleet import (
    CLOCK,
    CRC,
    DBE,
    FAILURE,
    FREE,
    PENDING,
    POWER,
    REASONS,
    RECOVERY,
    REPLAY,
    ROWS,
    SBE,
    STEP,
    T0,
    TEMP,
    TENSOR,
    USED,
    UTIL,
    WIDTH,
    XID,
    Change,
    add,
    change,
    find,
    fleet,
    scrape,
    signs,
)

from aiops.model import NO_TIME, Case, RankPlace, Role, Severity

CULPRIT = (1, 5)
GONE = [change(name, None) for name in (TEMP, CLOCK, UTIL, POWER, USED)]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("nodes", [1, 4])
def test_a_healthy_fleet_is_silent(tmp_path: Path, nodes: int, parts: int) -> None:
    assert signs(fleet(tmp_path, nodes=nodes, parts=parts)) == []
    assert signs(scrape(tmp_path, nodes=nodes)) == []


def test_random_healthy_noise_is_silent(tmp_path: Path) -> None:
    rng = random.Random(3)

    def jitter(values: dict[str, float | None], i: int) -> None:
        values[TEMP] = rng.gauss(62, 3)
        values[CLOCK] = rng.choice([1980, 1965, 1935, 1755]) if rng.random() < 0.2 else 1980
        values[UTIL] = 0 if rng.random() < 0.02 else rng.uniform(80, 100)
        values[POWER] = rng.gauss(620, 60)
        values[REASONS] = rng.choice([0, 1, 4, 0x10])

    noisy = {(n, g): [jitter] for n in range(3) for g in range(8)}
    assert signs(fleet(tmp_path, noisy, nodes=3, samples=120)) == []


def up(name: str, *levels: tuple[int, float]) -> Change:
    def apply(values: dict[str, float | None], i: int) -> None:
        for since, value in levels:
            if i >= since:
                values[name] = value

    return apply


SIMPLE = [
    ("metric.ecc_dbe", [change(DBE, 2)], Role.ROOT, Severity.FATAL, {"errors": 2, "new": True}),
    (
        "metric.ecc_sbe_storm",
        [up(SBE, *((20 + i, 40.0 * i) for i in range(10)))],
        Role.CONTEXT,
        Severity.WARNING,
        {"errors": 360, "peers": 0},
    ),
    ("metric.row_remap", [change(ROWS, 1)], Role.ROOT, Severity.ERROR, {"rows": 1}),
    ("metric.row_remap_pending", [change(PENDING, 1)], Role.ROOT, Severity.WARNING, {"pending": True}),
    ("metric.row_remap_failure", [change(FAILURE, 1)], Role.ROOT, Severity.FATAL, {"since_start": False}),
    ("metric.xid", [change(XID, 79)], Role.ROOT, Severity.ERROR, {"xid": 79, "before": 0, "new": True}),
    (
        "metric.thermal_throttle",
        [change(REASONS, 0x48), change(TEMP, 91), change(CLOCK, 1200)],
        Role.ROOT,
        Severity.ERROR,
        {"temp": 91, "clock": 1200, "share": 1.0, "bits": "0x48"},
    ),
    (
        "metric.thermal_throttle",
        [change(REASONS, None, 0), change(TEMP, 88), change(CLOCK, 1500)],
        Role.ROOT,
        Severity.ERROR,
        {"temp": 88, "clock": 1500},
    ),
    ("metric.power_brake", [change(REASONS, 0x88), change(CLOCK, 990)], Role.ROOT, Severity.ERROR, {"gpus": 1}),
    ("metric.clock_low", [change(CLOCK, 1200)], Role.ROOT, Severity.WARNING, {"clock": 1200}),
    ("metric.gpu_absent", GONE, Role.ROOT, Severity.ERROR, {"returned": False, "peers_present": 7}),
    (
        "metric.idle_gpu",
        [change(UTIL, 0), change(POWER, 130), change(TENSOR, 0)],
        Role.ROOT,
        Severity.ERROR,
        {"util": 0, "fb_used_mib": 72005},
    ),
    (
        "metric.pcie_replay",
        [up(REPLAY, *((20 + i, 12.0 * i) for i in range(10)))],
        Role.ROOT,
        Severity.WARNING,
        {"peers": 0},
    ),
    ("metric.pcie_width", [change(WIDTH, 4)], Role.ROOT, Severity.ERROR, {"now": 4, "before": 16, "what": "lanes"}),
    ("metric.nvlink_errors", [change(RECOVERY, 1)], Role.ROOT, Severity.ERROR, {"retrained": True}),
    ("metric.nvlink_errors", [change(CRC, 700)], Role.ROOT, Severity.WARNING, {"retrained": False}),
    ("metric.fb_full", [change(USED, 80_500), change(FREE, 500)], Role.CONTEXT, Severity.INFO, {"percent": 99.4}),
    ("metric.fb_drop", [change(USED, 4)], Role.ECHO, Severity.WARNING, {"after_mib": 4}),
]


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(("sign", "changes", "role", "severity", "fields"), SIMPLE)
def test_one_faulty_gpu_gives_one_finding_with_proof(
    tmp_path: Path,
    sign: str,
    changes: list[Change],
    role: Role,
    severity: Severity,
    fields: dict[str, object],
    parts: int,
) -> None:
    case = fleet(tmp_path, {CULPRIT: changes}, parts=parts)
    (finding,) = find(case)
    assert (finding.sign, finding.role, finding.severity) == (sign, role, severity)
    assert (finding.node, finding.gpu, finding.pci, finding.uuid) == ("gx-01", 5, "0000:15:00", "GPU-1-5")
    assert {key: finding.fields[key] for key in fields} == fields
    # the pause of all jobs at sample 19, a first increment of zero: the onset is the sample or the one after
    assert (T0 + 20 * STEP) * 10**9 <= finding.first <= (T0 + 21 * STEP) * 10**9
    assert finding.first <= finding.last <= (T0 + 39 * STEP) * 10**9
    assert "GPU 5 (0000:15:00) on gx-01" in finding.text
    for ref in finding.evidence:
        data = (tmp_path / ref.source).read_bytes()
        value = ref.text.rpartition(" ")[2]
        assert data[ref.offset :].startswith(f'[{ref.ts // 10**9},"{value}"]'.encode())
        assert ref.line == 1


@pytest.mark.parametrize(
    "sign",
    [
        "metric.ecc_dbe",
        "metric.row_remap_pending",
        "metric.row_remap_failure",
        "metric.gpu_absent",
        "metric.pcie_width",
        "metric.thermal_throttle",
    ],
)
def test_a_single_scrape_is_enough_where_it_can_be(tmp_path: Path, sign: str) -> None:
    changes = next(changes for name, changes, *_ in SIMPLE if name == sign)
    (finding,) = find(scrape(tmp_path, {CULPRIT: changes}, nodes=3))
    assert (finding.sign, finding.role, finding.node, finding.gpu) == (sign, Role.ROOT, "gx-01", 5)
    assert finding.first == finding.last == NO_TIME
    for ref in finding.evidence:
        line = (tmp_path / ref.source).read_text().splitlines()[ref.line - 1]
        assert ref.text == line
        assert (tmp_path / ref.source).read_bytes()[ref.offset :].startswith(line.encode())


@pytest.mark.parametrize(
    "changes",
    [
        [change(XID, 79)],
        [change(XID, 0)],
        [change(SBE, 40)],
        [change(UTIL, 0)],
        [change(CLOCK, 1200)],
        [change(REASONS, 0x40)],
        [change(TEMP, 75)],
        [change(REPLAY, 900)],
    ],
)
def test_a_single_scrape_accuses_nobody_of_what_it_cannot_show(tmp_path: Path, changes: list[Change]) -> None:
    assert [s for s in signs(scrape(tmp_path, {CULPRIT: changes})) if s[3] == "root"] == []


def test_an_xid_that_was_there_all_the_time_is_history(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {CULPRIT: [change(XID, 31, 0)]}))
    assert (finding.role, finding.fields["xid"], finding.fields["new"]) == (Role.CONTEXT, 31, False)


def test_xids_in_their_order_and_followers_are_echoes(tmp_path: Path) -> None:
    findings = find(fleet(tmp_path, {CULPRIT: [change(XID, 79, 20), change(XID, 45, 22)]}))
    assert [(f.fields["xid"], f.role) for f in findings] == [(79, Role.ROOT), (45, Role.ECHO)]
    assert [f.first for f in findings] == [(T0 + i * STEP) * 10**9 for i in (20, 22)]


def test_an_xid_series_that_begins_with_the_error_is_new(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {CULPRIT: [change(XID, None, 0, 20), change(XID, 94, 20)]}))
    assert (finding.role, finding.fields["xid"]) == (Role.ROOT, 94)


def test_a_restarted_exporter_is_no_news(tmp_path: Path) -> None:
    """All series stop, come back with zeros for one scrape, and the latched XID is gone."""
    gap = [change(name, None, 20, 24) for name in (TEMP, CLOCK, UTIL, POWER, USED, FREE, XID, DBE, SBE, REPLAY)]
    zeros = [change(name, 0, 24, 25) for name in (UTIL, USED, SBE, DBE, REPLAY, CLOCK)]
    latch = [change(XID, 43, 0, 20)]
    everywhere = {(0, g): [*latch, *gap, *zeros] for g in range(8)}
    assert {s for s in signs(fleet(tmp_path, everywhere)) if s[3] != "context"} == set()


def test_counters_that_reset_count_what_comes_after(tmp_path: Path) -> None:
    """2 before the driver is reloaded, 0 for a while, then one new error."""
    history = [change(DBE, 2, 0), change(DBE, 0, 15), change(DBE, 1, 25)]
    (finding,) = find(fleet(tmp_path, {CULPRIT: history}))
    assert finding.fields["errors"] == 1 and finding.first == (T0 + 25 * STEP) * 10**9


def test_an_increase_across_a_gap_is_seen(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {CULPRIT: [change(DBE, None, 15, 25), change(DBE, 1, 25)]}))
    assert (finding.sign, finding.fields["errors"]) == ("metric.ecc_dbe", 1)


def test_old_counts_are_context(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {CULPRIT: [change(DBE, 1, 0)]}))
    assert (finding.role, finding.fields["new"]) == (Role.CONTEXT, False)


def test_a_pending_remap_that_was_reset_is_context(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {CULPRIT: [change(PENDING, 1, 5, 15)]}))
    assert (finding.sign, finding.role) == ("metric.row_remap_pending", Role.CONTEXT)


@pytest.mark.parametrize(
    "changes",
    [
        [change(REASONS, 0x40, 20, 21), change(TEMP, 91, 20, 21), change(CLOCK, 1200, 20, 21)],
        [change(UTIL, 0, 20, 22)],
        [change(CLOCK, 1000, 20, 22)],
        [change(USED, 0, 20, 22)],
        [change(REASONS, 0x8)],
        [change(REASONS, 0x4)],
        [change(TEMP, 80)],
        [change(CLOCK, 345), change(UTIL, 10)],
        [change(REPLAY, 8)],
        [change(SBE, 12)],
    ],
    ids=[
        "one hot scrape",
        "two idle scrapes",
        "two slow scrapes",
        "two empty scrapes",
        "hw slowdown alone",
        "power cap",
        "warm only",
        "slow because idle",
        "a few replays",
        "a few corrected errors",
    ],
)
def test_what_does_not_persist_or_is_normal_is_no_finding(tmp_path: Path, changes: list[Change]) -> None:
    assert signs(fleet(tmp_path, {CULPRIT: changes})) == []


def test_a_node_whose_cooling_fails_is_one_finding(tmp_path: Path) -> None:
    hot = [change(REASONS, 0x44), change(TEMP, 90), change(CLOCK, 1300)]
    (finding,) = find(fleet(tmp_path, {(1, g): hot for g in range(8)}, nodes=3))
    assert (finding.sign, finding.node, finding.gpu, finding.uuid) == ("metric.thermal_throttle", "gx-01", None, None)
    assert finding.fields["gpus"] == list(range(8)) and "8 of 8 GPUs on gx-01" in finding.text


def test_a_power_brake_on_many_nodes_is_one_finding(tmp_path: Path) -> None:
    braked = [change(REASONS, 0x88), change(CLOCK, 990)]
    (finding,) = find(fleet(tmp_path, {(n, g): braked for n in (1, 2) for g in range(8)}, nodes=4))
    assert finding.sign == "metric.power_brake" and finding.nodes == ("gx-01", "gx-02") and finding.node is None
    assert finding.fields == {"gpus": 16, "nodes": 2}


def test_four_gpu_nodes_are_compared_across_nodes(tmp_path: Path) -> None:
    (finding,) = find(fleet(tmp_path, {(1, 2): [change(CLOCK, 1200)]}, nodes=3, gpus=4))
    assert (finding.sign, finding.node, finding.gpu) == ("metric.clock_low", "gx-01", 2)


def test_too_few_gpus_accuse_nobody_by_comparison(tmp_path: Path) -> None:
    assert signs(fleet(tmp_path, {(0, 1): [change(CLOCK, 1200)]}, nodes=1, gpus=4)) == []


def test_a_hang_with_one_idle_gpu(tmp_path: Path) -> None:
    spin = [change(UTIL, 100), change(POWER, 170), change(TENSOR, 0)]
    stuck = [change(UTIL, 0), change(POWER, 130), change(TENSOR, 0)]
    waiting = {(n, g): spin for n in range(4) for g in range(8)}
    idle, hang = find(fleet(tmp_path, {**waiting, CULPRIT: stuck}, nodes=4))
    assert (idle.sign, idle.node, idle.gpu, idle.role) == ("metric.idle_gpu", "gx-01", 5, Role.ROOT)
    assert idle.fields["peers_util"] == 100
    assert (hang.sign, hang.role, hang.node, hang.fields["gpus"]) == ("metric.hang", Role.ECHO, None, 31)
    assert hang.nodes == ("gx-00", "gx-01", "gx-02", "gx-03") and hang.fields["power"] == 170


def test_a_hang_is_seen_without_tensor_activity_by_power_alone(tmp_path: Path) -> None:
    spin = [change(UTIL, 100), change(POWER, 170)]
    case = fleet(tmp_path, {(n, g): spin for n in range(2) for g in range(8)}, only={UTIL, POWER, TEMP})
    assert [s[0] for s in signs(case)] == ["metric.hang"]


def test_full_load_at_low_power_from_the_start_is_a_hang_only_if_it_is_cool(tmp_path: Path) -> None:
    def job(temp: float) -> Case:
        load = [change(UTIL, 100, 0), change(POWER, 130, 0), change(TEMP, temp, 0)]
        return fleet(tmp_path, {(0, g): load for g in range(4)}, nodes=1, gpus=4, only={UTIL, POWER, TEMP, CLOCK})

    assert [s[0] for s in signs(job(41))] == ["metric.hang"]
    assert signs(job(72)) == []  # a small card at its limit


def test_a_spare_gpu_is_not_suspect(tmp_path: Path) -> None:
    spare = [change(UTIL, 0, 0), change(USED, 4, 0), change(POWER, 70, 0), change(TENSOR, 0, 0), change(CLOCK, 345, 0)]
    assert signs(fleet(tmp_path, {CULPRIT: spare})) == []


def test_idle_among_the_ranks_of_the_job_although_other_gpus_rest(tmp_path: Path) -> None:
    rest = [change(UTIL, 0, 0), change(USED, 4, 0), change(POWER, 70, 0), change(TENSOR, 0, 0)]
    changes = {(2, g): rest for g in range(8)} | {(0, 1): [change(UTIL, 0), change(POWER, 120), change(TENSOR, 0)]}
    case = fleet(tmp_path, changes, nodes=3)
    case.topology.ranks = {r: RankPlace(r, f"gx-{r // 8:02d}", gpu=r % 8) for r in range(16)}
    assert signs(case) == [("metric.idle_gpu", "gx-00", 1, "root")]


def test_the_end_of_a_job_is_no_drop(tmp_path: Path) -> None:
    ends = {(n, g): [change(USED, 4, 30 + (n + g) % 2), change(UTIL, 0, 30)] for n in range(2) for g in range(8)}
    assert signs(fleet(tmp_path, ends)) == []


def test_a_gpu_that_comes_back_is_context(tmp_path: Path) -> None:
    away = [change(name, None, 15, 25) for name in (TEMP, CLOCK, UTIL, POWER, USED)]
    (finding,) = find(fleet(tmp_path, {CULPRIT: away}))
    assert (finding.sign, finding.role, finding.fields["returned"]) == ("metric.gpu_absent", Role.CONTEXT, True)


def test_a_node_that_is_not_scraped_has_not_lost_its_gpus(tmp_path: Path) -> None:
    names = (
        TEMP,
        CLOCK,
        UTIL,
        POWER,
        USED,
        FREE,
        REASONS,
        XID,
        SBE,
        DBE,
        PENDING,
        FAILURE,
        ROWS,
        REPLAY,
        WIDTH,
        TENSOR,
        CRC,
        RECOVERY,
    )
    dark = {(1, g): [change(name, None) for name in names] for g in range(8)}
    assert signs(fleet(tmp_path, dark)) == [("metric.gap", "gx-01", None, "context")]


def test_a_metric_that_starts_late_is_not_absent(tmp_path: Path) -> None:
    late = [change(name, None, 0, 10) for name in (TEMP, CLOCK, UTIL, POWER, USED)]
    assert signs(fleet(tmp_path, {CULPRIT: late})) == []


def test_memory_full_on_many_gpus_is_one_remark(tmp_path: Path) -> None:
    full = [change(USED, 80_500), change(FREE, 500)]
    (finding,) = find(fleet(tmp_path, {(n, g): full for n in range(2) for g in range(8)}))
    assert (finding.sign, finding.count, finding.nodes) == ("metric.fb_full", 16, ("gx-00", "gx-01"))


def test_files_sampled_at_other_times_are_joined(tmp_path: Path) -> None:
    """Each node's nvidia-smi runs on its own clock, and its files name no host: a folder does, which logs know."""
    case = Case(root=str(tmp_path))
    for node in range(3):
        rows = ["timestamp, index, uuid, pci.bus_id, utilization.gpu [%], power.draw [W], memory.used [MiB]"]
        for i in range(40):
            for gpu in range(8):
                idle = (node, gpu) == CULPRIT and i >= 20
                rows.append(
                    f"{T0 + 30 * i + 7.3 * node + 0.01 * (i % 5):.3f}, {gpu}, GPU-{node}-{gpu}, "
                    f"00000000:{0x10 + gpu:02X}:00.0, {0 if idle else 97} %, 600 W, 70000 MiB"
                )
        case.topology.nodes[f"gx-{node:02d}"] = {"kern.log"}
        (tmp_path / f"gx-{node:02d}").mkdir()
        add(case, tmp_path / f"gx-{node:02d}" / "smi.csv", "\n".join(rows) + "\n")
        case.sources[-1].name = f"gx-{node:02d}/smi.csv"
    (finding,) = find(case)
    assert (finding.sign, finding.node, finding.gpu, finding.uuid) == ("metric.idle_gpu", "gx-01", 5, "GPU-1-5")
    first = finding.evidence[0]
    line = (tmp_path / first.source).read_text().splitlines()[first.line - 1]
    assert line.startswith(f"{T0 + 30 * 20 + 7.3:.3f}, 5, GPU-1-5")


def test_a_source_that_knows_only_the_index_joins_the_gpu_of_another(tmp_path: Path) -> None:
    case = fleet(tmp_path, {CULPRIT: [change(UTIL, 0), change(POWER, 120)]}, only={UTIL, POWER, USED})
    rows = ["time,metric,Hostname,gpu,value"]
    rows += [
        f"{T0 + 120 * i},DCGM_FI_PROF_PIPE_TENSOR_ACTIVE,gx-{n:02d},{g},{0.0 if (n, g) == CULPRIT else 0.4}"
        for i in range(20)
        for n in range(2)
        for g in range(8)
    ]
    add(case, tmp_path / "tensor.csv", "\n".join(rows) + "\n")
    (finding,) = find(case)
    assert (finding.uuid, finding.fields["tensor"]) == ("GPU-1-5", 0.0)


def test_the_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    changes = {CULPRIT: [change(DBE, 1), change(REASONS, 0x44), change(TEMP, 91), change(CLOCK, 1300)]}
    case = fleet(tmp_path, changes, parts=5)
    other = Case(root=case.root)
    for source in reversed(case.sources):
        add(other, source.path, source.path.read_text())
    assert [(f.sign, f.text, f.first, f.last, f.fields) for f in find(case)] == [
        (f.sign, f.text, f.first, f.last, f.fields) for f in find(other)
    ]


def test_samples_of_a_case_are_not_changed(tmp_path: Path) -> None:
    case = fleet(tmp_path, {CULPRIT: GONE}, parts=3)
    before = [block.values.copy() for block in case.series]
    find(case)
    assert all(
        ((a == b) | ((a != a) & (b != b))).all()
        for a, b in zip(before, (block.values for block in case.series), strict=True)
    )


def test_memory_that_grows_until_it_is_full_is_a_leak(tmp_path: Path) -> None:
    def grow(values: dict[str, float | None], i: int) -> None:
        values[USED] = 20_000 + 1_550 * i
        values[FREE] = 81_000 - 20_000 - 1_550 * i

    found = [f for f in find(fleet(tmp_path, {(1, 5): [grow]})) if f.sign == "metric.mem_growth"]
    assert [(f.node, f.gpu, f.role) for f in found] == [("gx-01", 5, Role.ROOT)]
    assert found[0].fields == {"from_gib": 19.5, "to_gib": 78.6}


@pytest.mark.parametrize(
    "levels",
    [
        [(0, 8_000), (20, 79_500)],  # a model is loaded
        [(i, 20_000 + 1_000 * i) for i in range(40)],  # grows, but much is left
        [(i, 20_000 + 1_550 * (i % 20)) for i in range(40)],  # given back
        [(i, min(79_000, 20_000 + 6_000 * i)) for i in range(40)],  # warm-up
    ],
)
def test_memory_that_is_taken_once_or_given_back_is_no_leak(tmp_path: Path, levels: list[tuple[int, float]]) -> None:
    found = find(fleet(tmp_path, {(1, 5): [up(USED, *levels)]}))
    assert [f for f in found if f.sign == "metric.mem_growth"] == []
