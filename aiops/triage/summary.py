"""``summary.md``: what many bundles say together. The same bundles give the same text, so it holds no timings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from aiops.report.escape import markdown
from aiops.triage.rows import Row

MAX_LISTED = 500
"""Bundles listed one by one; the table has all."""
MAX_CULPRITS = 20
SOFTWARE = frozenset({"user_code", "config", "data", "storage", "scheduler"})
"""Kinds of culprit whose node is only where it happened; many of them on one node say nothing about the node."""


def summarize(rows: Sequence[Row]) -> str:
    """Markdown with counts by verdict, family and class, GPU-hours, culprits that recur, and failures to read."""
    parts = [
        "# Triage",
        _totals(rows),
        *_classes(rows),
        *_families(rows),
        *_culprits(rows),
        *_failures(rows),
        *_bundles(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _totals(rows: Sequence[Row]) -> str:
    verdicts = Counter(row.verdict for row in rows)
    words = [f"{len(rows)} {'bundle' if len(rows) == 1 else 'bundles'}"]
    for key, singular, plural in (
        ("incident", "incident", "incidents"),
        ("no_incident", "healthy", "healthy"),
        ("inconclusive", "inconclusive", "inconclusive"),
        (None, "not read", "not read"),
    ):
        if verdicts[key]:
            words.append(f"{verdicts[key]} {singular if verdicts[key] == 1 else plural}")
    lost = [row.gpu_hours_lost for row in rows if row.gpu_hours_lost is not None]
    hours = f" At least {sum(lost):,.1f} GPU-hours were lost." if lost else ""
    return f"{words[0]}: {', '.join(words[1:]) or 'none'}.{hours}"


def _classes(rows: Sequence[Row]) -> list[str]:
    return _grouped("By failure class", "class", [(row.failure_class, row) for row in rows])


def _families(rows: Sequence[Row]) -> list[str]:
    return _grouped("By family", "family", [(row.family, row) for row in rows])


def _grouped(title: str, head: str, pairs: Iterable[tuple[str | None, Row]]) -> list[str]:
    groups: dict[str, list[Row]] = {}
    for key, row in pairs:
        if key is not None:
            groups.setdefault(key, []).append(row)
    if not groups:
        return []
    lines = [
        (key, str(len(group)), str(sum(bool(row.hardware) for row in group)), _hours(group))
        for key, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return [f"## {title}", _table((head, "bundles", "hardware", "GPU-hours lost"), lines)]


def _culprits(rows: Sequence[Row]) -> list[str]:
    """Nodes and GPUs that are at fault in more than one bundle: lemons, and what to look at first."""
    seen: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.failure_class is None or row.culprit_kind in SOFTWARE:
            continue
        if row.node:
            seen.setdefault(("node", row.node), []).append(row)
        if row.device:
            seen.setdefault(("GPU", row.device), []).append(row)
    again = sorted(
        ((key, group) for key, group in seen.items() if len(group) > 1), key=lambda item: (-len(item[1]), item[0])
    )
    if not again:
        return []
    lines = [
        (
            kind,
            _whole_name(name, group),
            str(len(group)),
            ", ".join(sorted({row.failure_class or "" for row in group})),
            _hours(group),
        )
        for (kind, name), group in again[:MAX_CULPRITS]
    ]
    more = len(again) - MAX_CULPRITS
    return [
        "## Culprits that recur",
        _table(("what", "name", "bundles", "classes", "GPU-hours lost"), lines),
        *([f"{more} more in the table."] if more > 0 else []),
    ]


def _whole_name(name: str, group: Sequence[Row]) -> str:
    """A UUID tells nobody where the GPU is, and a GPU may have moved."""
    nodes = sorted({row.node for row in group if row.node})
    return name if not nodes or name.startswith(nodes[0]) else f"{name} in {', '.join(nodes)}"


def _failures(rows: Sequence[Row]) -> list[str]:
    failed = [row for row in rows if row.error is not None]
    if not failed:
        return []
    return ["## Not read", _table(("bundle", "reason"), [(row.bundle, row.error or "") for row in failed])]


def _bundles(rows: Sequence[Row]) -> list[str]:
    done = [row for row in rows if row.error is None]
    if not done:
        return []
    lines = [
        (
            row.bundle,
            row.verdict or "",
            row.failure_class or "",
            _place(row),
            "" if row.confidence is None else f"{row.confidence:.0%}",
            row.requeue or "",
        )
        for row in done
    ]
    more = len(lines) - MAX_LISTED
    head = ("bundle", "verdict", "class", "culprit", "confidence", "requeue")
    return ["## Bundles", _table(head, lines[:MAX_LISTED]), *([f"{more} more in the table."] if more > 0 else [])]


def _place(row: Row) -> str:
    words = [row.node] if row.node else []
    words += [f"GPU {row.gpu}"] if row.gpu is not None else []
    words += [f"rank {row.rank}"] if row.rank is not None else []
    return " ".join(words) or (row.culprit_kind or "")


def _hours(rows: Iterable[Row]) -> str:
    known = [row.gpu_hours_lost for row in rows if row.gpu_hours_lost is not None]
    return f"{sum(known):,.1f}" if known else "unknown"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(markdown(cell) for cell in line) + " |" for line in lines]
    return "\n".join(out)
