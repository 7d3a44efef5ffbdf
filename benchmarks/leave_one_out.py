"""What happens to a failure that the catalog does not know.

Each family of failure classes is taken out of the catalog in turn, and the labelled cases of that family are judged without it.
Right is to abstain or to name a general class; harm is to take a node out that the truth does not blame.

    python benchmarks/leave_one_out.py > table.md
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from labelled import Labelled, labelled_cases

from aiops.catalog import Catalog, load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.correlate import correlate
from aiops.detect import detect
from aiops.ingest import open_case
from aiops.model.report import DISRUPTIVE
from aiops.recommend import recommend

OUTCOMES = ("abstains", "other class, no node", "blames a wrong node")


def without(catalog: Catalog, family: str) -> Catalog:
    """The catalog without the failure classes of a family; signals and playbooks stay."""
    return dataclasses.replace(catalog, failures={k: v for k, v in catalog.failures.items() if v.family != family})


def outcome(case: Labelled, catalog: Catalog, settings: Settings) -> tuple[str, str]:
    """(outcome, class that was named)."""
    with case.bundle() as folder, open_case([folder], settings) as opened:
        drafts = correlate(opened, detect(opened, catalog), catalog)
        if not drafts:
            return "abstains", "no incident"
        targets = {
            action.target.node
            for draft in drafts
            for action in recommend(opened, draft, catalog, settings).actions
            if action.action in DISRUPTIVE and action.target.node
        }
        named = drafts[0].best.failure.id
        if targets - case.nodes and case.nodes:
            return "blames a wrong node", named
        if targets and not case.nodes:
            return "blames a wrong node", named
        if drafts[0].verdict == "inconclusive" or named.startswith("unk."):
            return "abstains", named
        return "other class, no node", named


def main() -> None:
    catalog = load_catalog()
    settings = Settings(cache_dir=default_cache_dir())
    cases = [case for case in labelled_cases() if case.accept]
    print(f"| family taken out | cases | {' | '.join(OUTCOMES)} | named instead (most often) |")
    print("|---|---|" + "---|" * (len(OUTCOMES) + 1))
    total: Counter[str] = Counter()
    for family in sorted({case.family for case in cases} - {"unk"}):
        # cases that only this family explains: an accepted class of another family would still be right
        own = [case for case in cases if all(accept.split(".")[0] == family for accept in case.accept)]
        if not own:
            continue
        reduced = without(catalog, family)
        results = [outcome(case, reduced, settings) for case in own]
        counts = Counter(result for result, _ in results)
        named = Counter(name for _, name in results)
        total.update(counts)
        cells = " | ".join(str(counts[o]) for o in OUTCOMES)
        print(f"| {family} | {len(own)} | {cells} | {', '.join(f'{n} ({c})' for n, c in named.most_common(3))} |")
    print(f"| **all** | {sum(total.values())} | {' | '.join(str(total[o]) for o in OUTCOMES)} | |")


if __name__ == "__main__":
    main()
