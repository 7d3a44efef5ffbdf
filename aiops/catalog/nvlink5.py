"""The sub-codes of Xid 144 to 150: what ``intrInfo`` and ``errorStatus`` of a Blackwell NVLink line say."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import lru_cache

from aiops.resources import catalog_dir

CODES = range(144, 151)
_WORD = re.compile(r"\b(Link Fatal|Fatal|Non-?fatal)\b", re.I)
_UNIT = re.compile(r"\d{3},[ ]+(?:pid=[^,\n]*,[ ]+name=[^,\n]*,[ ]+)?([A-Z][A-Z0-9_/]{2,40})\b")
_REGISTERS = re.compile(r"\((0x[0-9a-fA-F]{1,8})[ ,]+(0x[0-9a-fA-F]{1,8})")
_LINK = re.compile(r"\bLink (-?\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class LinkError:
    """What is known about one NVLink5 line."""

    unit: str
    """Sub-code such as ``RLW_REMAP``; empty if the line names none."""
    link: int | None
    fatal: bool | None
    """``None`` if neither the line nor the table tells."""
    action: str
    """The table's immediate action (``RESET_GPU``, ``IGNORE``, ``XID_154_EVAL``); empty without a row."""
    then: str
    """The table's next investigation, such as ``INVESTIGATE_LINK_SI``."""
    remote: bool
    """The row expects lost packets at the other end of the link: peers report errors as well."""


@dataclass(frozen=True, slots=True)
class _Row:
    units: frozenset[str]
    masks: tuple[str, str]
    statuses: frozenset[int]
    """Values of ``errorStatus``; empty = any."""
    action: str
    then: str
    fatal: bool
    remote: bool


def decode(xid: int, text: str) -> LinkError | None:
    """Read one line of Xid 144 to 150; ``None`` for other codes.

    The driver's own word (Fatal, Nonfatal) decides where it stands, since it is made from the same registers with the
    layout of that driver; a line without the word is looked up. The layout of ``intrInfo`` changed with driver 575, and
    lines do not state the driver, so a row counts if either layout fits and all rows that fit agree.

    Source: NVIDIA Xid catalog, sheet "Xids 144-150".
    """
    if xid not in CODES:
        return None
    word = _WORD.search(text)
    unit_match = _UNIT.search(text)
    unit = unit_match[1] if unit_match else ""
    link = _LINK.search(text)
    rows = _fitting(xid, unit, text)
    fatal: bool | None = None
    if word:
        fatal = not word[1].lower().startswith("non")
    elif rows and len({row.fatal for row in rows}) == 1:
        fatal = rows[0].fatal
    agreed = [row for row in rows if fatal is None or row.fatal == fatal]
    actions = {row.action for row in agreed}
    return LinkError(
        unit=unit,
        link=int(link[1]) if link else None,
        fatal=fatal,
        action=agreed[0].action if len(actions) == 1 else "",
        then=agreed[0].then if len({row.then for row in agreed}) == 1 else "",
        remote=bool(agreed) and all(row.remote for row in agreed),
    )


def _fitting(xid: int, unit: str, text: str) -> list[_Row]:
    registers = _REGISTERS.search(text)
    if registers is None:
        return []
    info, status = int(registers[1], 16), int(registers[2], 16)
    known = [row for row in _table().get(xid, ()) if not row.statuses or status in row.statuses]
    named = [row for row in known if unit in row.units] if unit else known
    return [row for row in named if any(_fits(info, mask) for mask in row.masks)]


def _fits(value: int, mask: str) -> bool:
    """True if all bits that a mask of 32 characters (highest bit first, ``-`` = any) fixes are so."""
    return bool(mask) and all(
        char == "-" or (value >> (31 - place)) & 1 == int(char) for place, char in enumerate(mask)
    )


@lru_cache(maxsize=1)
def _table() -> dict[int, tuple[_Row, ...]]:
    rows: dict[int, list[_Row]] = {}
    with open(catalog_dir() / "nvlink5.csv", encoding="utf-8", newline="") as handle:
        for raw in csv.DictReader(handle):
            statuses = raw["error_status_hex"].strip()
            rows.setdefault(int(raw["xid"]), []).append(
                _Row(
                    units=frozenset(raw["subcode"].split("/")),
                    masks=(_mask(raw["intrinfo_mask_v1_pre_r575"]), _mask(raw["intrinfo_mask_v2_r575"])),
                    statuses=frozenset(int(one, 16) for one in statuses.split("/") if one),
                    action=raw["recovery_action"].strip(),
                    then=raw["investigatory"].strip(),
                    fatal=not raw["severity"].strip().lower().startswith("non"),
                    remote="PacketLoss" in raw["local_remote"].rpartition("Remote:")[2],
                )
            )
    return {code: tuple(found) for code, found in rows.items()}


def _mask(text: str) -> str:
    text = text.strip()
    return text if len(text) == 32 and set(text) <= set("01-") else ""
