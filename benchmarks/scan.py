"""The scanner against ripgrep with the same rules, in one run on the same warm file.

    python benchmarks/scan.py            # 1 GiB, seven rounds
    python benchmarks/scan.py --smoke    # 24 MB, three rounds

The rules are the whole catalog of the product; the log is that of `logs.py`, seeded. Prints CPU seconds per GB of both
(whole processes: start, catalog and database from its cache included), their ratio (above 1 = the scanner is faster)
and the private memory of the scanner at full size and at a quarter of it.

`rg` says which lines match any rule. The scanner gives exact (line, rule) pairs with line numbers; those of the first
lines are compared with each rule alone in `re`. "As the product" is what `aiops analyze` does: lines with their text,
storms thinned out and counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from logs import write_log
from measure import run

CHILD = """
import sys
from pathlib import Path
from aiops.catalog import load_catalog
from aiops.scan import make_scanner
log, cache, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
scanner = make_scanner(load_catalog(), cache_dir=cache)
lines = pairs = 0
if mode == "pairs":
    for found in scanner.pairs(log):
        pairs += len(found.rules)
        lines += len(set(found.lines.tolist()))
else:
    for hit in scanner.scan_file(log):
        lines += 1
        pairs += sum(weight for _, weight in hit.rules)
print(lines, pairs)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--size-mb", type=int)
    parser.add_argument("--rounds", type=int)
    args = parser.parse_args()
    size = (args.size_mb or (24 if args.smoke else 1024)) << 20
    rounds = args.rounds or (3 if args.smoke else 7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, errors in (("0.1 % error lines", 0.001), ("20 % error lines", 0.2)):
            compare(folder, label, errors, size, rounds)


def compare(folder: Path, label: str, errors: float, size: int, rounds: int) -> None:
    from aiops.catalog import load_catalog
    from aiops.scan.rules import RuleSet

    log = folder / "log"
    write_log(log, size, errors=errors, seed=11)
    rules = RuleSet(load_catalog().signals).rules
    patterns = folder / "patterns"
    # the same rules; rg wants each group name once
    patterns.write_text("".join(re.sub(r"\(\?P<\w+>", "(?:", rule.signal.match[rule.pattern]) + "\n" for rule in rules))
    scan = [sys.executable, "-c", CHILD, str(log), str(folder / "cache")]
    subprocess.run([*scan, "pairs"], check=True, capture_output=True)
    checked(folder, log)
    small = folder / "quarter"
    with log.open("rb") as whole, small.open("wb") as part:
        for _ in range(log.stat().st_size >> 24):
            part.write(whole.read(1 << 22))
    quarter = run([sys.executable, "-c", CHILD, str(small), str(folder / "cache"), "pairs"]).anon_mib
    rg = shutil.which("rg")
    ours, product, theirs, memory = [], [], [], 0.0
    for _ in range(rounds):
        cost, whole_cost = run([*scan, "pairs"]), run([*scan, "product"])
        if cost.code or whole_cost.code:
            raise SystemExit("the scanner failed")
        ours.append(cost.cpu_s)
        product.append(whole_cost.cpu_s)
        memory = max(memory, cost.anon_mib, whole_cost.anon_mib)
        if rg:
            other = run([rg, "-c", "-a", "-j1", "--no-unicode", "-f", str(patterns), str(log)])
            if other.code != 0:
                raise SystemExit(f"rg ended with {other.code}: the rules are not the same for both")
            theirs.append(other.cpu_s)
    gb = log.stat().st_size / 1e9
    print(
        f"{label}: {gb:.2f} GB, {len(rules)} rules, {rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    for name, costs in (("exact pairs", ours), ("as the product", product)):
        print(f"  {name:15} {spread([cost / gb for cost in costs])} CPU-s/GB", end="")
        if theirs:
            ratios = [b / a for a, b in zip(costs, theirs, strict=True)]
            print(f", rg {spread([cost / gb for cost in theirs])}, rg/scanner {spread(ratios)}")
        else:
            print(", rg is not installed: no comparison")
    print(f"  private memory  {memory:.0f} MiB, at a quarter of the size {quarter:.0f} MiB", flush=True)


def spread(values: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def checked(folder: Path, log: Path) -> None:
    """Exact (line, rule) pairs of the first 2,000 lines against each rule alone with `re`."""
    from aiops.catalog import load_catalog
    from aiops.scan import make_scanner

    lines = log.read_bytes()[: 1 << 20].split(b"\n")[:2000]
    scanner = make_scanner(load_catalog(), cache_dir=folder / "cache", keep=None)
    slice_ = folder / "slice"
    slice_.write_bytes(b"\n".join(lines))
    found = {
        (line, rule)
        for pairs in scanner.pairs(slice_)
        for line, rule in zip(pairs.lines.tolist(), pairs.rules.tolist(), strict=True)
    }
    compiled = [(rule.id, re.compile(rule.signal.match[rule.pattern].encode())) for rule in scanner.rules.rules]
    wanted = {(number, rule) for number, line in enumerate(lines, 1) for rule, regex in compiled if regex.search(line)}
    if found != wanted:
        raise SystemExit(f"the pairs differ from re: {len(found - wanted)} too many, {len(wanted - found)} missing")


if __name__ == "__main__":
    main()
