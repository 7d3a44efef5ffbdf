"""Lines that healthy jobs and nodes print by the thousand: what a rule's literal text must be rare in.

One or two of each kind, with invented hosts and numbers, in the words of the software that prints them. The scanner
uses them to choose which part of a rule it looks for first, the linter to find rules that slow every scan.
"""

from __future__ import annotations

LINES = (
    # trainers
    " [2026-08-01 08:00:00] iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 8654.5 | "
    "throughput per GPU (TFLOP/s/GPU): 402.1 | learning rate: 9.150000E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | "
    "loss scale: 1.0 | grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "2026-08-01 08:00:00,123 INFO [rank 0] trainer.py:318 step=900 loss=2.5885 lr=2.00e-04 step_time=1.431s data_time=0.014s",
    "[rank0]:[titan] 2026-08-01 08:00:00,123 - root - INFO - step: 10  loss:  8.1234  memory: 35.41GiB(44.79%)  tps: 3,011  mfu: 41.20%",
    "Epoch 3:  12%|#2        | 120/1000 [00:31<03:47,  3.86it/s, v_num=3, train_loss=0.213]",
    "{'loss': 0.4213, 'grad_norm': 0.8123, 'learning_rate': 1.9e-05, 'epoch': 0.31}",
    "[2026-08-01 08:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=120, skipped=0, lr=[2e-05], mom=[(0.9, 0.95)]",
    "steps: 120 loss: 2.1342 iter time (s): 1.712 samples/sec: 598.3",
    "12: 2026-08-01 08:00:00 | INFO | fairseq.trainer | epoch 001:  100 / 5000 loss=9.1, ppl=540.2, wps=12000, ups=1.2, lr=1e-04",
    "[default3]:INFO:root:rank 3 fetched batch 2210 from shard 00012 in 0.014 s, queue 12, worker 3",
    "2026-08-01 08:00:00,123 DEBUG [rank 3] loader.py:88 fetched shard 00812 (2048 records, 0.214 s), queue 31",
    "2026-08-01 08:00:00,123 INFO [rank 3] memory.py:41 allocated 41.02 GiB, reserved 60.44 GiB, peak 58.10 GiB, CUDA memory usage normal",
    "I0801 08:00:00.123456 1234 metrics.cc:88] step 1200 took 1.43 s, data wait 0.01 s, device utilization 97 %",
    "INFO:absl:Step 1200: train loss 2.31, learning rate 0.0003, gradient norm 0.4, 1430 ms per step",
    "saving checkpoint at iteration     500 to /ckpt/run in torch_dist format",
    "[2026-08-01 08:00:00,123] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving /ckpt/step500/mp_rank_00_model_states.pt...",
    "INFO:torch.distributed.elastic.agent.server.api:[default] Starting worker group with world size 64, local rank 3, node rank 1",
    "wandb: Syncing run graceful-sun-12, view run at the project page",
    "time (ms) | forward-compute: 1201.1 | backward-compute: 2301.2 | optimizer: 20.1 | batch-generator: 12.2 | all-reduce: 30.0",
    # NCCL and the fabric
    "gx-n1:7699:7699 [1] NCCL INFO Channel 02/0 : 1[1] -> 2[2] via P2P/CUMEM/read",
    "gx-n1:7699:7801 [1] NCCL INFO Channel 00/0 : 9[1] -> 16[0] [send] via NET/IB/3/GDRDMA",
    "gx-n1:7699:7801 [1] NCCL INFO Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0",
    "gx-n1:7699:7801 [1] NCCL INFO comm 0x55d0c0 rank 1 nRanks 64 nNodes 8 localRanks 8 localRank 1 MNNVL 0",
    "gx-n1:7699:7801 [1] NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
    "gx-n1:7699:7801 [1] NCCL INFO AllReduce: opCount 1f2 sendbuff 0x7f0 recvbuff 0x7f1 count 1048576 datatype 7 root 0 [nranks=64]",
    "gx-n1:7699:7801 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "I0801 08:00:00.123456 1234 ProcessGroupNCCL.cpp:1234] [PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL initialization options: "
    "size: 64, global rank: 3, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0",
    # kernel and system logs
    "Aug  1 08:00:00 gx-n1 systemd[1]: Started Session 39217 of User svc-mon.",
    "Aug  1 08:00:00 gx-n1 systemd[1]: node-exporter.service: Deactivated successfully.",
    "Aug  1 08:00:00 gx-n1 kernel: [412413.686070] workqueue: blk_mq_run_work_fn hogged CPU for >10000us 97 times",
    "Aug  1 08:00:00 gx-n1 kernel: [412413.686070] cni0: port 12(veth0a1b2c) entered forwarding state",
    'Aug  1 08:00:00 gx-n1 kernel: [412413.686070] audit: type=1400 audit(1785571200.123:456): apparmor="ALLOWED" operation="open" pid=12',
    "Aug  1 08:00:00 gx-n1 kernel: [412413.686070] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "Aug  1 08:00:00 gx-n1 sshd[3310]: Accepted publickey for svc from 10.0.0.9 port 40122 ssh2: ED25519 SHA256:abc",
    "Aug  1 08:00:00 gx-n1 CRON[3310]: (root) CMD (command -v debian-sa1 > /dev/null && debian-sa1 1 1)",
    "Aug  1 08:00:00 gx-n1 chronyd[801]: Selected source 10.0.0.2 (ntp1)",
    'Aug  1 08:00:00 gx-n1 dcgm-exporter[3310]: level=info msg="Collecting DCP metrics"',
    "Aug  1 08:00:00 gx-n1 nvidia-persistenced: device 0000:3b:00.0 - persistence mode enabled.",
    "Aug  1 08:00:00 gx-n1 nv-hostengine[3310]: watching 8 GPUs and 4 NvSwitches, group all",
    # Kubernetes, containers, Slurm
    'Aug  1 08:00:00 gx-n1 kubelet[2291]: I0801 kubelet.go:2456] "SyncLoop (PLEG): event for pod" pod="monitoring/node-exporter-904b7"',
    'Aug  1 08:00:00 gx-n1 containerd[901]: time="2026-08-01T08:00:00Z" level=info msg="Container exec finished" container=0a1b2c',
    '2026-08-01T08:00:00.123456789Z stdout F {"level":"info","ts":1785571200.12,"msg":"reconciled","controller":"job","namespace":"ml"}',
    "[2026-08-01T08:00:00.123] sched: Allocate JobId=700 NodeList=compute-1 #CPUs=32 Partition=gpu",
    "[2026-08-01T08:00:00.123] _slurm_rpc_submit_batch_job: JobId=701 InitPrio=4294 usec=512",
    "[2026-08-01T08:00:00.123] _job_complete: JobId=700 WEXITSTATUS 0",
    "[2026-08-01T08:00:00.123] debug:  backfill: beginning",
    # the words of everyday warnings
    "UserWarning: The given buffer is not writable, and PyTorch does not support non-writable tensors.",
    "/usr/lib/python3/site-packages/torch/utils/checkpoint.py:61: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.",
    "WARNING: 0 of 8 files were skipped; running with the default configuration, no error",
)
"""Kept free of every word that only failures print."""

TEXT = "\n".join((*LINES, ""))
