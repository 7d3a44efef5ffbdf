"""What the command line costs: help, a small bundle, a directory of logs.

    python benchmarks/analyze.py            # 1 GiB of logs of 64 ranks
    python benchmarks/analyze.py --smoke    # 24 MB

Bars (CPU seconds of the whole process with its children, compiled bytecode, warm files): help 0.4, a small bundle 1.5;
the logs twice what the scan of the same files costs alone, in 400 MiB of private memory of all processes together.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from logs import write_log
from measure import Cost, run

SCAN = """
import sys
from pathlib import Path
from aiops.catalog import load_catalog
from aiops.scan import make_scanner
scanner = make_scanner(load_catalog(), cache_dir=Path(sys.argv[1]))
for path in sorted(Path(sys.argv[2]).iterdir()):
    for hit in scanner.scan_file(path):
        pass
"""
RANKS = 64
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--size-mb", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    size = (args.size_mb or (24 if args.smoke else 1024)) << 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {"AIOPS_CACHE_DIR": str(folder / "cache")}
        aiops = [sys.executable, "-m", "aiops"]
        show("aiops --help", [run([*aiops, "--help"], env) for _ in range(args.rounds + 1)][1:])
        bundle = ROOT / "fixtures" / "xid79-slurm" / "bundle"
        show(
            "aiops analyze, bundled incident",
            [run([*aiops, "analyze", str(bundle)], env) for _ in range(args.rounds + 1)][1:],
        )
        logs = folder / "logs"
        logs.mkdir()
        for rank in range(RANKS):
            write_log(logs / f"rank_{rank}.log", size // RANKS, errors=0.001, seed=rank, rank=rank)
        scan = [sys.executable, "-c", SCAN, str(folder / "cache"), str(logs)]
        alone, whole = [], []
        for _ in range(args.rounds):
            alone.append(run(scan, env))
            whole.append(run([*aiops, "analyze", str(logs)], env))
        show(f"scan alone, {size >> 20} MiB of logs of {RANKS} ranks", alone)
        show("aiops analyze of them", whole)
        ratios = [cost.cpu_s / base.cpu_s for cost, base in zip(whole, alone, strict=True)]
        print(f"CPU analyze/scan {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def show(label: str, costs: list[Cost]) -> None:
    """Medians of the rounds; a wrong exit code ends the benchmark."""
    bad = [cost.code for cost in costs if cost.code not in (0, 10, 11)]
    if bad:
        raise SystemExit(f"{label}: exit code {bad[0]}")
    cpu = [cost.cpu_s for cost in costs]
    print(
        f"{label}: {statistics.median(cpu):.2f} CPU-s ({min(cpu):.2f} to {max(cpu):.2f} over {len(cpu)} rounds), "
        f"{statistics.median(cost.wall_s for cost in costs):.1f} s on the clock, "
        f"private memory {max(cost.anon_mib for cost in costs):.0f} MiB"
    )


if __name__ == "__main__":
    main()
