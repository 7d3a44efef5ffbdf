"""Long fuzzing of every parser and of the whole corridor: ``benchmarks/fuzz.py --minutes 10``.

Every failure prints the seed that makes it again: ``--again PARSER/SEED`` (with ``--save FILE``, the input as well).
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(ROOT), str(ROOT / "tests")]  # in place of this directory, whose file has the name of that package

from fuzz import targets  # noqa: E402


def main() -> int:
    """Exit code 1 if anything broke."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=int(time.time()), help="first seed; the default is the clock")
    options.add_argument("--only", nargs="*", choices=[*targets.PARSERS, "bundle"], help="parsers")
    options.add_argument("--again", metavar="PARSER/SEED", help="repeat one input and show its traceback")
    options.add_argument("--save", type=Path, help="with --again: write the input there (a directory for a bundle)")
    options.add_argument("--smoke", action="store_true", help="six seconds")
    chosen = options.parse_args()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", ResourceWarning)
    if chosen.again:
        return _again(chosen.again, chosen.save)
    return _run(
        60 * (0.1 if chosen.smoke else chosen.minutes), chosen.seed, chosen.only or [*targets.PARSERS, "bundle"]
    )


def _run(seconds: float, seed: int, names: list[str]) -> int:
    print(f"first seed {seed}; parsers: {', '.join(names)}")
    end = time.monotonic() + seconds
    share = seconds / (len(names) + 2 * ("bundle" in names))
    broken: dict[str, list[str]] = collections.defaultdict(list)
    for name in names:
        stop = min(end, time.monotonic() + share * (3 if name == "bundle" else 1))
        done = slowest = 0.0
        while time.monotonic() < stop:
            began = time.monotonic()
            try:
                _one(name, seed + int(done))
            except Exception as error:  # noqa: BLE001 - whatever a parser raises is what we are looking for
                broken[_signature(name, error)].append(f"{name}/{seed + int(done)}")
            slowest = max(slowest, time.monotonic() - began)
            done += 1
        print(f"{name:14} {int(done):8} inputs   slowest {slowest:6.2f} s", flush=True)
    for signature, seeds in sorted(broken.items()):
        print(f"\nBROKEN {len(seeds)} x {signature}\n  again: {' '.join(seeds[:5])}")
    print("\nnothing broke" if not broken else f"\n{len(broken)} kinds of failure")
    return 1 if broken else 0


def _one(name: str, seed: int) -> None:
    if name == "bundle":
        targets.run_bundle(seed)
    else:
        targets.run_parser(name, seed)


def _signature(name: str, error: Exception) -> str:
    """Where our own code broke: equal for all inputs that break it in the same way."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/aiops/" in f.filename]
    where = " < ".join(f"{f.filename.split('/aiops/')[-1]}:{f.lineno} {f.name}" for f in reversed(frames[-3:]))
    return f"{name}: {type(error).__name__}: {str(error)[:200]!r} at {where}"


def _again(which: str, save: Path | None) -> int:
    name, _, seed = which.partition("/")
    if save and name == "bundle":
        for inner, data in targets.mutated_bundle(int(seed)):
            path = save / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    elif save:
        save.write_bytes(targets.mutated(name, int(seed)))
    _one(name, int(seed))
    print(f"{which}: did not break")
    return 0


if __name__ == "__main__":
    sys.exit(main())
