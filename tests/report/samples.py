"""Reports written by hand, for tests of everything that shows one: plain data, no analysis behind them.

``off_bus()``       an incident on a 64-GPU Slurm job: three hypotheses, blocked actions, curves
``no_incident()``   a job that finished although its log is ugly
``inconclusive()``  time-outs without kernel logs: two candidates, what would decide, a truncated archive
``two_incidents()`` a user exception on one rank of a Kubernetes job, and a quota that holds another job
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aiops.model.report import (
    Action,
    ActionName,
    ActionTarget,
    BlastRadius,
    CheckpointChoice,
    CoverageReport,
    Culprit,
    Evidence,
    FindingItem,
    Hypothesis,
    Impact,
    Incident,
    JobItem,
    Narrative,
    ProblemItem,
    Report,
    Requeue,
    ScoreTerm,
    SourceItem,
    TimelineEntry,
)

DAY = "2026-11-28T"
NODES = [f"gpu-r07-n{i:02d}" for i in range(1, 9)]
KERNEL = "logs/gpu-r07-n03/kern.log"
RANK21 = "logs/train/rank21.log"
RANK0 = "logs/train/rank0.log"
SLURM = "slurm/sacct.txt"
METRICS = "metrics/dcgm.json"


def _curve(start: str, every_s: int, values: list[float | None]) -> list[list[Any]]:
    first = datetime.fromisoformat(DAY + start).replace(tzinfo=UTC)
    return [
        [(first + timedelta(seconds=i * every_s)).isoformat().replace("+00:00", "Z"), v] for i, v in enumerate(values)
    ]


def _off_bus_series() -> list[dict[str, Any]]:
    busy = [97.0, 98.0, 97.0, 96.0, 98.0, 97.0, 98.0, 97.0, 97.0, 98.0, 96.0, 97.0, 98.0, 97.0]
    peers_after = [100.0] * 21 + [0.0] * 5
    culprit = "gpu-r07-n03 GPU 5"
    return [
        {
            "field": "DCGM_FI_DEV_GPU_UTIL",
            "unit": "%",
            "entity": culprit,
            "role": "culprit",
            "points": _curve("03:07:30", 30, [*busy, *[None] * 26]),
        },
        {
            "field": "DCGM_FI_DEV_GPU_UTIL",
            "unit": "%",
            "entity": "median of 63 peers",
            "role": "peers_median",
            "points": _curve("03:07:30", 30, [*busy, *peers_after]),
        },
        {
            "field": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "unit": "",
            "entity": culprit,
            "role": "culprit",
            "points": _curve("03:07:30", 30, [0, 0, 0, 0, 0, 2, 2, 3, 9, 17, 41, 88, 190, 412, *[None] * 26]),
        },
        {
            "field": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "unit": "",
            "entity": "median of 63 peers",
            "role": "peers_median",
            "points": _curve("03:07:30", 30, [0.0] * 40),
        },
        {
            "field": "DCGM_FI_DEV_GPU_TEMP",
            "unit": "°C",
            "entity": culprit,
            "role": "culprit",
            "points": _curve("03:07:30", 30, [61, 61, 62, 61, 62, 62, 61, 62, 62, 63, 62, 62, 62, 61, *[None] * 26]),
        },
        {
            "field": "DCGM_FI_DEV_GPU_TEMP",
            "unit": "°C",
            "entity": "gpu-r07-n03 GPU 4",
            "role": "peer",
            "points": _curve("03:07:30", 30, [60.0] * 14 + [52.0] * 21 + [41.0] * 5),
        },
        {
            "field": "DCGM_FI_DEV_GPU_TEMP",
            "unit": "°C",
            "entity": "median of 63 peers",
            "role": "peers_median",
            "points": _curve("03:07:30", 30, [59.0] * 14 + [51.0] * 21 + [40.0] * 5),
        },
    ]


def _off_bus_evidence() -> list[Evidence]:
    return [
        Evidence(
            id="e1",
            source=KERNEL,
            locator="line 1874",
            line=1874,
            offset=201_774,
            ts=DAY + "03:12:01.118Z",
            text="Nov 28 03:12:01 gpu-r07-n03 kernel: pcieport 0000:a9:00.0: AER: Corrected error received: "
            "0000:ab:00.0",
            before=["Nov 28 02:00:01 gpu-r07-n03 CRON[88121]: (root) CMD (/usr/lib/sysstat/sa1 1 1)"],
            after=[
                "Nov 28 03:12:01 gpu-r07-n03 kernel: nvidia 0000:ab:00.0: PCIe Bus Error: "
                "severity=Corrected, type=Data Link Layer",
                "Nov 28 03:12:01 gpu-r07-n03 kernel: nvidia 0000:ab:00.0:   device [10de:2330] "
                "error status/mask=00001000/00002000",
            ],
        ),
        Evidence(
            id="e2",
            source=KERNEL,
            locator="line 1902",
            line=1902,
            offset=205_310,
            ts=DAY + "03:14:07.412Z",
            text="Nov 28 03:14:07 gpu-r07-n03 kernel: NVRM: Xid (PCI:0000:ab:00): 79, pid=48213, "
            "name=python3, GPU has fallen off the bus.",
            before=[
                "Nov 28 03:13:58 gpu-r07-n03 kernel: nvidia 0000:ab:00.0: PCIe Bus Error: "
                "severity=Corrected, type=Data Link Layer",
                "Nov 28 03:14:07 gpu-r07-n03 kernel: pcieport 0000:a9:00.0: pciehp: Slot(21): Link Down",
                "Nov 28 03:14:07 gpu-r07-n03 kernel: pcieport 0000:a9:00.0: pciehp: Slot(21): Card not present",
            ],
            after=[
                "Nov 28 03:14:07 gpu-r07-n03 kernel: NVRM: GPU 0000:ab:00.0: GPU has fallen off the bus.",
                "Nov 28 03:14:07 gpu-r07-n03 kernel: NVRM: GPU 0000:ab:00.0: GPU serial number is 1653922018845.",
                "Nov 28 03:14:08 gpu-r07-n03 kernel: NVRM: A GPU crash dump has been created.",
            ],
        ),
        Evidence(
            id="e3",
            source=RANK21,
            locator="line 90211",
            line=90_211,
            offset=9_812_004,
            ts=DAY + "03:14:07.901Z",
            text="[rank21]: RuntimeError: CUDA error: unspecified launch failure",
            before=['[rank21]:   File "/opt/train/loop.py", line 212, in step', "[rank21]:     loss.backward()"],
            after=["[rank21]: Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."],
        ),
        Evidence(
            id="e4",
            source=METRICS,
            locator="sample",
            line=None,
            offset=None,
            ts=DAY + "03:14:30Z",
            text='DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-r07-n03",gpu="5",'
            'UUID="GPU-5c1f0a7e-93b2-4b57-a5a0-0f2d7e0c9d11"} no samples after 03:14:00',
        ),
        Evidence(
            id="e5",
            source=RANK0,
            locator="line 120448",
            line=120_448,
            offset=13_904_220,
            ts=DAY + "03:24:08.020Z",
            text="[rank0]:[E1128 03:24:08.020113 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=771204, OpType=ALLREDUCE, NumelIn=67108864, "
            "NumelOut=67108864, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.",
            before=["step 41862 | loss 2.1183 | grad_norm 0.71 | tokens/s 1.92M | 03:14:06"],
            after=[
                "[rank0]:[E1128 03:24:08.021004 ProcessGroupNCCL.cpp:630] [Rank 0] Some NCCL operations have "
                "failed or timed out.",
                "[rank0]: To avoid data inconsistency, we are taking the entire process down.",
            ],
        ),
        Evidence(
            id="e6",
            source="logs/train/launcher.log",
            locator="line 511",
            line=511,
            offset=60_021,
            ts=DAY + "03:24:12Z",
            text="torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED",
            after=["Root Cause (first observed failure):", "  rank      : 9 (local_rank: 1)"],
        ),
        Evidence(
            id="e7",
            source=SLURM,
            locator="line 3",
            line=3,
            offset=214,
            ts=DAY + "03:24:19Z",
            text="81234.0|pretrain-70b|FAILED|1:0|2026-11-27T18:02:11|2026-11-28T03:24:19|gpu-r07-n[01-08]",
            before=[
                "JobID|JobName|State|ExitCode|Start|End|NodeList",
                "81234|pretrain-70b|FAILED|1:0|2026-11-27T18:02:09|2026-11-28T03:24:21|gpu-r07-n[01-08]",
            ],
        ),
        Evidence(
            id="e8",
            source="slurm/slurmctld.log",
            locator="line 88",
            line=88,
            offset=9_120,
            ts=DAY + "03:25:01.400Z",
            text="[2026-11-28T03:25:01.400] error: _slurm_rpc_node_registration node=gpu-r07-n03: Invalid "
            "argument, gres/gpu count reported lower than configured (7 < 8)",
        ),
        Evidence(
            id="e9",
            source=RANK0,
            locator="line 118730",
            line=118_730,
            offset=13_702_551,
            ts=DAY + "02:58:31Z",
            text="checkpoint saved: /ckpt/pretrain-70b/step-41500 (complete, manifest verified) in 41.2 s",
            before=["step 41500 | loss 2.1201 | grad_norm 0.70 | tokens/s 1.92M | 02:57:50"],
        ),
    ]


def _off_bus_findings() -> list[FindingItem]:
    gpu = "gpu-r07-n03 GPU 5 (0000:ab:00.0)"
    return [
        FindingItem(
            id="f1",
            sign="pcie.aer_corrected",
            text="34 corrected PCIe errors on 0000:ab:00.0 in two minutes",
            role="root",
            severity="warning",
            entity=gpu,
            first=DAY + "03:12:01.118Z",
            last=DAY + "03:13:58Z",
            count=34,
            evidence=["e1"],
        ),
        FindingItem(
            id="f2",
            sign="gpu.xid.79",
            text="Xid 79: GPU has fallen off the bus",
            role="root",
            severity="fatal",
            entity=gpu,
            first=DAY + "03:14:07.412Z",
            last=DAY + "03:14:07.412Z",
            evidence=["e2"],
        ),
        FindingItem(
            id="f3",
            sign="cuda.error",
            text="CUDA error: unspecified launch failure on rank 21",
            role="root",
            severity="fatal",
            entity="rank 21",
            first=DAY + "03:14:07.901Z",
            last=DAY + "03:14:07.901Z",
            evidence=["e3"],
        ),
        FindingItem(
            id="f4",
            sign="dcgm.gone",
            text="DCGM has no samples of GPU 5 after 03:14:00, its 7 siblings go on",
            role="root",
            severity="error",
            entity=gpu,
            first=DAY + "03:14:30Z",
            last=DAY + "03:27:00Z",
            evidence=["e4"],
        ),
        FindingItem(
            id="f5",
            sign="nccl.timeout",
            text="63 ranks time out in ALLREDUCE 771204 after 600 s",
            role="echo",
            severity="error",
            entity="63 ranks",
            first=DAY + "03:24:08.020Z",
            last=DAY + "03:24:08.611Z",
            count=63,
            evidence=["e5"],
        ),
        FindingItem(
            id="f6",
            sign="launcher.root_cause",
            text="launcher names rank 9 first",
            role="echo",
            severity="error",
            entity="rank 9",
            first=DAY + "03:24:12Z",
            last=DAY + "03:24:12Z",
            evidence=["e6"],
        ),
        FindingItem(
            id="f7",
            sign="slurm.failed",
            text="job 81234 ended FAILED, exit code 1",
            role="echo",
            severity="error",
            entity="job 81234",
            first=DAY + "03:24:19Z",
            last=DAY + "03:24:19Z",
            evidence=["e7"],
        ),
        FindingItem(
            id="f8",
            sign="slurm.gres_lower",
            text="Slurm counts 7 of 8 GPUs on gpu-r07-n03",
            role="root",
            severity="error",
            entity="gpu-r07-n03",
            first=DAY + "03:25:01.400Z",
            last=DAY + "03:25:01.400Z",
            evidence=["e8"],
        ),
        FindingItem(
            id="f9",
            sign="ckpt.saved",
            text="checkpoint of step 41500 complete and verified",
            role="context",
            severity="info",
            entity="job 81234",
            first=DAY + "02:58:31Z",
            last=DAY + "02:58:31Z",
            count=12,
            evidence=["e9"],
        ),
    ]


def _off_bus_timeline() -> list[TimelineEntry]:
    gpu = "gpu-r07-n03 GPU 5"

    def at(clock: str, entity: str, text: str, evidence: list[str], role: Any) -> TimelineEntry:
        return TimelineEntry(ts=DAY + clock, entity=entity, text=text, evidence=evidence, role=role)

    return [
        at("02:58:31Z", "job 81234", "last checkpoint saved, step 41500", ["e9"], "context"),
        at("03:12:01.118Z", gpu, "PCIe link starts to correct errors (34 in two minutes)", ["e1"], "cause"),
        at("03:14:07.412Z", gpu, "Xid 79: GPU has fallen off the bus", ["e2"], "cause"),
        at("03:14:07.901Z", "rank 21", "CUDA error: unspecified launch failure", ["e3"], "effect"),
        at("03:14:11Z", "rank 21", "process ends with exit code 1", ["e3"], "effect"),
        at("03:14:30Z", gpu, "DCGM stops seeing the GPU, its siblings go on", ["e4"], "effect"),
        at("03:14:37Z", "63 ranks", "wait in ALLREDUCE 771204 (last step 41862)", ["e5"], "effect"),
        at("03:24:08.020Z", "63 ranks", "NCCL watchdog time-out after 600 s", ["e5"], "effect"),
        at("03:24:12Z", "job 81234", "launcher blames rank 9: an echo, it only spoke first", ["e6"], "context"),
        at("03:24:19Z", "job 81234", "step 0 ends FAILED", ["e7"], "effect"),
        at("03:25:01.400Z", "gpu-r07-n03", "Slurm counts 7 of 8 GPUs", ["e8"], "effect"),
        TimelineEntry(ts=None, entity="gpu-r07-n03", text="node not rebooted since 2026-11-02", role="context"),
    ]


def _off_bus_actions() -> list[Action]:
    node = "gpu-r07-n03"
    reason = "aiops:inc-81234-1:gpu.off_bus"
    return [
        Action(
            action=ActionName.DRAIN_NODE,
            target=ActionTarget(cluster="alpha", node=node),
            scheduler="slurm",
            commands=[f'scontrol update NodeName={node} State=DRAIN Reason="{reason}"'],
            undo=[f"scontrol update NodeName={node} State=UNDRAIN"],
            why="the GPU is gone until the node is power-cycled; a new job would fail in its first step",
            evidence=["e2", "e8"],
            risk="low",
            blast_radius=BlastRadius(nodes=1, gpus=8, jobs=0, note="no other job runs on the node"),
            requires_approval=True,
        ),
        Action(
            action=ActionName.RESTORE_CHECKPOINT,
            target=ActionTarget(job="81234"),
            scheduler="slurm",
            commands=["ls -l /ckpt/pretrain-70b/step-41500"],
            why="the newest checkpoint is complete; a lost GPU does not corrupt the state of the others",
            evidence=["e9"],
            risk="none",
            blast_radius=BlastRadius(nodes=0, gpus=0, jobs=1),
        ),
        Action(
            action=ActionName.REQUEUE_EXCLUDING_NODE,
            target=ActionTarget(cluster="alpha", job="81234"),
            scheduler="slurm",
            commands=[
                "scontrol requeuehold 81234",
                f"scontrol update JobId=81234 ExcNodeList={node}",
                "scontrol release 81234",
            ],
            undo=["scontrol update JobId=81234 ExcNodeList="],
            why="7 nodes are healthy, only gpu-r07-n03 must stay out",
            evidence=["e2"],
            risk="low",
            blast_radius=BlastRadius(nodes=8, gpus=64, jobs=1),
            requires_approval=True,
        ),
        Action(
            action=ActionName.REBOOT_NODE,
            target=ActionTarget(cluster="alpha", node=node),
            scheduler="slurm",
            commands=[f'scontrol reboot ASAP nextstate=RESUME reason="{reason}" {node}'],
            undo=[f"scontrol cancel_reboot {node}"],
            why="Xid 79 is cleared by a cold start only",
            evidence=["e2"],
            risk="medium",
            blast_radius=BlastRadius(nodes=1, gpus=8, jobs=0),
            requires_approval=True,
            blocked_by=["the node is not drained yet"],
        ),
        Action(
            action=ActionName.RMA,
            target=ActionTarget(cluster="alpha", node=node, gpu=5),
            why="second fall from the bus of one GPU means a bad board or slot",
            evidence=["e2"],
            risk="high",
            requires_approval=True,
            blocked_by=["first time for this GPU: the site's policy asks for a second", "diagnostics have not run"],
        ),
    ]


def off_bus() -> Report:
    """GPU 5 of the third of eight nodes falls off the bus; 63 ranks wait ten minutes and time out."""
    gpu = Culprit(
        kind="gpu",
        cluster="alpha",
        node="gpu-r07-n03",
        gpu=5,
        gpu_uuid="GPU-5c1f0a7e-93b2-4b57-a5a0-0f2d7e0c9d11",
        pci="0000:ab:00.0",
        rank=21,
        job="81234",
    )
    hypotheses = [
        Hypothesis(
            failure_class="gpu.off_bus",
            confidence=0.96,
            culprit=gpu,
            explains=["f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"],
            score=9.4,
            terms=[
                ScoreTerm(term="cause seen", value=4.0, why="Xid 79 names the GPU itself", findings=["f2"]),
                ScoreTerm(
                    term="explained",
                    value=3.5,
                    why="7 of 8 findings follow from it, in the right order",
                    findings=["f3", "f4", "f5", "f6", "f7", "f8"],
                ),
                ScoreTerm(
                    term="predicted and seen",
                    value=1.6,
                    why="DCGM goes blank, Slurm counts 7 of 8 GPUs",
                    findings=["f4", "f8"],
                ),
                ScoreTerm(
                    term="precursor",
                    value=0.5,
                    why="corrected PCIe errors on the same link two minutes before",
                    findings=["f1"],
                ),
                ScoreTerm(
                    term="predicted, not seen",
                    value=-0.2,
                    why="no IPMI critical interrupt, and the BMC log was collected for one hour only",
                ),
            ],
        ),
        Hypothesis(
            failure_class="pcie.aer_fatal",
            confidence=0.03,
            culprit=Culprit(kind="link", cluster="alpha", node="gpu-r07-n03", pci="0000:a9:00.0"),
            explains=["f1", "f2", "f3", "f5", "f7"],
            score=4.1,
            against=["all AER errors were corrected ones; no uncorrectable error was logged"],
            would_decide=["the switch's own AER log: `lspci -vvv -s a9:00.0` on gpu-r07-n03"],
            terms=[
                ScoreTerm(term="explained", value=4.6, why="5 of 8 findings", findings=["f1", "f2", "f3"]),
                ScoreTerm(
                    term="predicted, not seen", value=-0.5, why="no uncorrectable AER in a kernel log that is complete"
                ),
            ],
        ),
        Hypothesis(
            failure_class="usr.exception",
            confidence=0.01,
            culprit=Culprit(kind="user_code", rank=21, job="81234", name="/opt/train/loop.py:212"),
            explains=["f3", "f5", "f6", "f7"],
            score=1.2,
            against=[
                "the exception comes 0.5 s after the Xid on the same GPU",
                "user code cannot take a GPU off the bus",
            ],
            terms=[
                ScoreTerm(term="explained", value=2.2, why="4 of 8 findings", findings=["f3", "f5", "f6", "f7"]),
                ScoreTerm(term="contradicted", value=-1.0, why="Xid 79 came first", findings=["f2"]),
            ],
        ),
    ]
    incident = Incident(
        id="inc-81234-1",
        title="GPU fell off the PCIe bus, job 81234 hung for 10 minutes and died",
        failure_class="gpu.off_bus",
        confidence=0.96,
        hardware=True,
        culprit=gpu,
        culprits=[gpu],
        hypotheses=hypotheses,
        requeue=Requeue(
            verdict="exclude_nodes", exclude=["gpu-r07-n03"], why="the fault is one GPU; the other 7 nodes show nothing"
        ),
        checkpoint=CheckpointChoice(
            rule="C0",
            restore="/ckpt/pretrain-70b/step-41500",
            step=41_500,
            saved_at=DAY + "02:58:31Z",
            age_s=936.4,
            lost_steps=362,
            why="newest complete checkpoint; the state of the model was never in doubt",
        ),
        actions=_off_bus_actions(),
        impact=Impact(
            gpus=64,
            gpu_hours_lost=27.5,
            cost=68.75,
            started=DAY + "03:14:07.412Z",
            detected=DAY + "03:24:08.020Z",
            ended=DAY + "03:24:19Z",
        ),
        timeline=_off_bus_timeline(),
        findings=_off_bus_findings(),
        evidence=_off_bus_evidence(),
        narrative=Narrative(
            text="At 03:14:07 GPU 5 of gpu-r07-n03 fell off the PCIe bus (Xid 79) [e2], two minutes "
            "after its link began to correct errors [e1]. Rank 21 failed half a second later "
            "[e3]; the other 63 ranks waited in the same all-reduce until the NCCL watchdog "
            "ended them after ten minutes [e5, e7]. Rank 9, which the launcher names, only spoke "
            "first [e6]."
        ),
    )
    sources = [
        SourceItem(
            name=KERNEL,
            kind="kernel",
            format="syslog",
            node="gpu-r07-n03",
            bytes=212_480,
            lines=1_931,
            first="2026-11-27T00:00:01Z",
            last=DAY + "03:27:00Z",
        ),
        SourceItem(name=SLURM, kind="slurm", format="sacct", bytes=612, lines=5),
        SourceItem(
            name="slurm/slurmctld.log",
            kind="slurm",
            format="slurmctld",
            bytes=10_220,
            lines=96,
            first=DAY + "02:00:00Z",
            last=DAY + "03:26:10Z",
        ),
        SourceItem(name="logs/train/launcher.log", kind="training", format="text", bytes=71_004, lines=590),
        SourceItem(
            name=METRICS,
            kind="metrics",
            format="prometheus",
            bytes=8_220_114,
            lines=1,
            first=DAY + "03:07:30Z",
            last=DAY + "03:27:00Z",
        ),
    ]
    sources += [
        SourceItem(
            name=f"logs/train/rank{r}.log",
            kind="training",
            format="text",
            node=NODES[r // 8],
            rank=r,
            bytes=14_000_000 + r * 1_311,
            lines=120_000 + r,
            first="2026-11-27T18:02:30Z",
            last=DAY + "03:24:12Z",
        )
        for r in range(64)
    ]
    coverage = CoverageReport(
        sources=sources,
        kinds={"kernel": 1, "training": 65, "slurm": 2, "metrics": 1},
        problems=[],
        missing=["no kernel log of 7 of 8 nodes", "no BMC event log before 02:30"],
        nodes=NODES,
        world_size=64,
        ranks_seen=64,
        jobs=[JobItem(id="81234", name="pretrain-70b", scheduler="slurm", state="FAILED", nodes=NODES, gpus=64)],
        first="2026-11-27T00:00:01Z",
        last=DAY + "03:27:00Z",
        notes=["gpu-r07-n06: its clock is 2.1 s ahead (from 212 shared events), corrected"],
        series=_off_bus_series(),
    )
    return Report(
        verdict="incident",
        coverage=coverage,
        incidents=[incident],
        summary="GPU 5 of gpu-r07-n03 fell off the bus; requeue job 81234 without that node from step 41500",
    )


def no_incident() -> Report:
    """A job that succeeded although its log is full of warnings."""
    return Report(
        verdict="no_incident",
        summary="Job 90412 finished; 1,204 NCCL warnings and two retried connections did not touch it",
        coverage=CoverageReport(
            sources=[
                SourceItem(
                    name="train.log",
                    kind="training",
                    format="text",
                    bytes=48_120_332,
                    lines=611_204,
                    first=DAY + "00:00:04Z",
                    last=DAY + "09:41:55Z",
                ),
                SourceItem(name="sacct.txt", kind="slurm", format="sacct", bytes=301, lines=3),
            ],
            kinds={"training": 1, "slurm": 1},
            missing=["no kernel log of any node", "no GPU metrics"],
            nodes=["n1", "n2"],
            world_size=16,
            ranks_seen=16,
            jobs=[
                JobItem(id="90412", name="sft-8b", scheduler="slurm", state="COMPLETED", nodes=["n1", "n2"], gpus=16)
            ],
            first=DAY + "00:00:04Z",
            last=DAY + "09:41:55Z",
            notes=[
                "1,204 lines `NCCL WARN` are from the optional plugin that is not installed",
                "two connections to the object store were retried and succeeded",
            ],
        ),
    )


def inconclusive() -> Report:
    """Everybody timed out, nobody collected kernel logs, and the archive is cut."""
    unknown = Culprit(kind="unknown", job="train-ns/llm-sft-7")
    rank6 = Culprit(kind="rank", rank=6, node="node-b", job="train-ns/llm-sft-7")
    evidence = [
        Evidence(
            id="e1",
            source="pods.tar.gz!rank0.log",
            locator="line 8812",
            line=8_812,
            offset=901_222,
            ts=DAY + "11:20:44Z",
            text="[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90211, "
            "OpType=ALLGATHER, Timeout(ms)=600000)",
            before=["step 1204 done in 2.21 s"],
        ),
        Evidence(
            id="e2",
            source="pods.tar.gz!rank6.log",
            locator="line 8640",
            line=8_640,
            offset=880_010,
            ts=DAY + "11:10:40Z",
            text="step 1204 done in 2.19 s",
            before=["step 1203 done in 2.20 s"],
            after=[],
        ),
    ]
    findings = [
        FindingItem(
            id="f1",
            sign="nccl.timeout",
            text="15 of 16 ranks time out in ALLGATHER 90211",
            role="echo",
            severity="error",
            entity="15 ranks",
            first=DAY + "11:20:44Z",
            last=DAY + "11:20:45Z",
            count=15,
            evidence=["e1"],
        ),
        FindingItem(
            id="f2",
            sign="rank.silent",
            text="rank 6 writes nothing after step 1204",
            role="root",
            severity="warning",
            entity="rank 6",
            first=DAY + "11:10:40Z",
            last=DAY + "11:10:40Z",
            evidence=["e2"],
        ),
    ]
    incident = Incident(
        id="inc-llm-sft-7-1",
        title="Collective time-out; rank 6 fell silent first",
        failure_class="nccl.missing_rank",
        confidence=0.41,
        hardware=False,
        culprit=rank6,
        culprits=[rank6],
        hypotheses=[
            Hypothesis(
                failure_class="nccl.missing_rank",
                confidence=0.41,
                culprit=rank6,
                explains=["f1", "f2"],
                score=2.4,
                against=["the log of rank 6 may be cut: its archive is truncated"],
                would_decide=[
                    "kernel log of node-b between 11:10 and 11:21",
                    "stack of rank 6: `py-spy dump --pid …`, or the flight recorder dump",
                ],
                terms=[ScoreTerm(term="explained", value=2.4, why="both findings", findings=["f1", "f2"])],
            ),
            Hypothesis(
                failure_class="nccl.timeout_unattributed",
                confidence=0.38,
                culprit=unknown,
                explains=["f1"],
                score=2.2,
                would_decide=["the whole of rank6.log"],
                terms=[
                    ScoreTerm(term="explained", value=1.2, why="one of two findings", findings=["f1"]),
                    ScoreTerm(term="asks for nothing", value=1.0, why="needs no silent rank"),
                ],
            ),
        ],
        requeue=Requeue(verdict="fix_first", why="without a culprit the same time-out may come again"),
        checkpoint=CheckpointChoice(rule="C0", why="no checkpoint line in what was read"),
        actions=[
            Action(
                action=ActionName.INVESTIGATE,
                target=ActionTarget(node="node-b", job="train-ns/llm-sft-7"),
                scheduler="kubernetes",
                commands=["kubectl debug node/node-b -it --image=busybox -- chroot /host dmesg -T"],
                why="the kernel log of the node of rank 6 decides between hardware and software",
                evidence=["e2"],
                risk="none",
                blast_radius=BlastRadius(nodes=0, gpus=0, jobs=0),
            )
        ],
        impact=Impact(gpus=16, gpu_hours_lost=2.7, started=DAY + "11:10:40Z", detected=DAY + "11:20:44Z"),
        timeline=[
            TimelineEntry(
                ts=DAY + "11:10:40Z",
                entity="rank 6",
                text="last sign of life: step 1204",
                evidence=["e2"],
                role="cause",
            ),
            TimelineEntry(
                ts=DAY + "11:20:44Z",
                entity="15 ranks",
                text="NCCL watchdog time-out after 600 s",
                evidence=["e1"],
                role="effect",
            ),
        ],
        findings=findings,
        evidence=evidence,
        narrative=Narrative(
            text="Fifteen ranks waited for an all-gather that rank 6 never joined [e1]. Its log ends "
            "ten minutes earlier [e2], but the archive that holds it is cut, so silence proves "
            "little."
        ),
    )
    return Report(
        verdict="inconclusive",
        incidents=[incident],
        summary="15 of 16 ranks timed out; rank 6 is silent, but its log is cut and no kernel log was collected",
        coverage=CoverageReport(
            sources=[
                SourceItem(
                    name=f"pods.tar.gz!rank{r}.log",
                    kind="training",
                    format="text",
                    rank=r,
                    node="node-a" if r < 4 else "node-b",
                    bytes=910_000,
                    lines=8_830,
                )
                for r in range(16)
            ],
            kinds={"training": 16},
            problems=[
                ProblemItem(
                    source="pods.tar.gz",
                    reason="archive is truncated after 14.2 MB: the last member (rank6.log) is incomplete",
                ),
                ProblemItem(
                    source="pods.tar.gz!rank11.log", reason="812 bytes are not UTF-8, shown as \ufffd", line=77
                ),
            ],
            missing=[
                "no kernel log of any node",
                "no GPU metrics",
                "no flight recorder dump",
                "nothing from the scheduler",
            ],
            world_size=16,
            ranks_seen=16,
            nodes=["node-a", "node-b"],
            jobs=[JobItem(id="train-ns/llm-sft-7", name="llm-sft-7", scheduler="kubernetes", gpus=16)],
            first=DAY + "09:00:00Z",
            last=DAY + "11:20:45Z",
        ),
    )


def two_incidents() -> Report:
    """A user exception on one rank of a Kubernetes job; and, apart from it, a quota that holds another job."""
    code = Culprit(kind="user_code", job="ml/rlhf-3", rank=7, name="/app/data/collate.py:88 in pad_batch")
    quota = Culprit(kind="scheduler", job="ml/eval-9", name="ClusterQueue research")
    first = Incident(
        id="inc-ml-rlhf-3",
        title="User code raised IndexError on rank 7",
        failure_class="usr.exception",
        confidence=0.93,
        hardware=False,
        culprit=code,
        culprits=[code],
        hypotheses=[
            Hypothesis(
                failure_class="usr.exception",
                confidence=0.93,
                culprit=code,
                explains=["f1", "f2"],
                score=6.0,
                terms=[
                    ScoreTerm(term="cause seen", value=4.0, why="traceback in user code", findings=["f1"]),
                    ScoreTerm(term="explained", value=2.0, why="both findings", findings=["f1", "f2"]),
                ],
            )
        ],
        requeue=Requeue(verdict="fix_first", why="the same batch raises the same error again"),
        checkpoint=CheckpointChoice(
            rule="C0",
            restore="s3://ckpt/rlhf-3/step-800",
            step=800,
            age_s=12_240.0,
            saved_at=DAY + "05:00:00Z",
            lost_steps=96,
            why="newest complete checkpoint",
        ),
        actions=[
            Action(
                action=ActionName.FIX_USER_CODE,
                target=ActionTarget(job="ml/rlhf-3"),
                scheduler="kubernetes",
                why="pad_batch indexes past the end when a batch is empty",
                evidence=["e1"],
                risk="none",
            ),
            Action(
                action=ActionName.HOLD_JOB,
                target=ActionTarget(job="ml/rlhf-3"),
                scheduler="kubernetes",
                commands=['kubectl -n ml patch workload rlhf-3 --type merge -p \'{"spec":{"active":false}}\''],
                undo=['kubectl -n ml patch workload rlhf-3 --type merge -p \'{"spec":{"active":true}}\''],
                why="it restarts and fails every four minutes",
                evidence=["e1"],
                risk="low",
                blast_radius=BlastRadius(nodes=4, gpus=32, jobs=1),
                requires_approval=True,
            ),
        ],
        impact=Impact(
            gpus=32,
            gpu_hours_lost=108.8,
            started=DAY + "08:24:00Z",
            detected=DAY + "08:24:02Z",
            ended=DAY + "08:24:30Z",
        ),
        timeline=[
            TimelineEntry(
                ts=DAY + "08:24:00Z", entity="rank 7", text="IndexError in pad_batch", evidence=["e1"], role="cause"
            ),
            TimelineEntry(
                ts=DAY + "08:24:02Z",
                entity="31 ranks",
                text="connection reset by rank 7",
                evidence=["e2"],
                role="effect",
            ),
        ],
        findings=[
            FindingItem(
                id="f1",
                sign="py.exception",
                text="IndexError: list index out of range",
                role="root",
                severity="fatal",
                entity="rank 7",
                first=DAY + "08:24:00Z",
                last=DAY + "08:24:00Z",
                evidence=["e1"],
            ),
            FindingItem(
                id="f2",
                sign="nccl.reset",
                text="31 ranks lose the connection to rank 7",
                role="echo",
                severity="error",
                entity="31 ranks",
                first=DAY + "08:24:02Z",
                last=DAY + "08:24:03Z",
                count=31,
                evidence=["e2"],
            ),
        ],
        evidence=[
            Evidence(
                id="e1",
                source="rank7.log",
                locator="line 4411",
                line=4_411,
                ts=DAY + "08:24:00Z",
                text="IndexError: list index out of range",
                before=['  File "/app/data/collate.py", line 88, in pad_batch', "    longest = sizes[-1]"],
            ),
            Evidence(
                id="e2",
                source="rank0.log",
                locator="line 4502",
                line=4_502,
                ts=DAY + "08:24:02Z",
                text="NCCL WARN socketProgress: Connection closed by remote peer rank 7",
            ),
        ],
        narrative=Narrative(
            text="Rank 7 raised IndexError in pad_batch [e1]; its peers lost the connection [e2].",
            by="rules",
            unsupported_claims=2,
            note="the model answered after the time limit",
        ),
    )
    second = Incident(
        id="inc-ml-eval-9",
        title="Job waits for quota",
        failure_class="sch.quota",
        confidence=0.78,
        hardware=False,
        culprit=quota,
        culprits=[quota],
        hypotheses=[Hypothesis(failure_class="sch.quota", confidence=0.78, culprit=quota, explains=["f3"], score=3.0)],
        requeue=Requeue(verdict="not_needed", why="it starts by itself when quota is free"),
        checkpoint=CheckpointChoice(rule="C3", why="the job has made no progress"),
        actions=[
            Action(
                action=ActionName.WAIT,
                target=ActionTarget(job="ml/eval-9"),
                scheduler="kubernetes",
                commands=["kubectl -n ml get workload eval-9 -o wide"],
                why="16 of 64 GPUs free up at 10:00",
                evidence=["e3"],
            )
        ],
        timeline=[
            TimelineEntry(
                ts=DAY + "07:55:00Z", entity="job ml/eval-9", text="QuotaReserved=False", evidence=["e3"], role="cause"
            )
        ],
        findings=[
            FindingItem(
                id="f3",
                sign="kueue.quota",
                text="workload waits for quota",
                role="root",
                severity="warning",
                entity="job ml/eval-9",
                first=DAY + "07:55:00Z",
                evidence=["e3"],
            )
        ],
        evidence=[
            Evidence(
                id="e3",
                source="workloads.json",
                locator="line 212",
                line=212,
                text='"message": "couldn\'t assign flavors: insufficient unused quota for nvidia.com/gpu"',
            )
        ],
    )
    return Report(
        verdict="incident",
        incidents=[first, second],
        summary="rank 7 of ml/rlhf-3 raised IndexError in pad_batch; ml/eval-9 waits for quota",
        coverage=CoverageReport(
            sources=[
                SourceItem(name="rank7.log", kind="training", rank=7, bytes=400_112, lines=4_420),
                SourceItem(name="rank0.log", kind="training", rank=0, bytes=412_001, lines=4_510),
                SourceItem(name="workloads.json", kind="kubernetes", format="json", bytes=20_110, lines=611),
            ],
            kinds={"training": 2, "kubernetes": 1},
            missing=["no kernel log of any node"],
            world_size=32,
            ranks_seen=2,
            jobs=[
                JobItem(id="ml/rlhf-3", scheduler="kubernetes", state="Failed", gpus=32),
                JobItem(id="ml/eval-9", scheduler="kubernetes", state="Pending", gpus=16),
            ],
            first=DAY + "05:00:00Z",
            last=DAY + "08:24:30Z",
        ),
    )


ALL = {"off_bus": off_bus, "no_incident": no_incident, "inconclusive": inconclusive, "two_incidents": two_incidents}
