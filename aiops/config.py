"""Settings of one run, from defaults, the environment (``AIOPS_*``) and command-line flags."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from aiops.errors import InputError

ENGINES = ("auto", "hyperscan", "re2")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep hostile input from exhausting the machine."""

    max_files: int = 200_000
    """Files looked at in one case; the rest is counted in ``coverage``."""
    max_unpacked_bytes: int = 16 << 30
    """Bytes that all archives of a case may unpack to."""
    max_ratio: int = 600
    """Expansion ratio above which a member larger than ``ratio_floor`` is cut."""
    ratio_floor: int = 256 << 20
    max_archive_depth: int = 4
    max_document_bytes: int = 256 << 20
    """Largest JSON or YAML document that is parsed as a whole."""
    events_per_rule: int = 2_000
    """Events kept one by one for a rule in a file; more are counted, see ``scan.storm``."""
    line_bytes: int = 8_192
    """Bytes of a hit line that are decoded; longer lines are cut."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a caller can choose about an analysis."""

    limits: Limits = field(default_factory=Limits)
    catalog_dirs: tuple[Path, ...] = ()
    """A site's own catalog directories, read after the built-in one."""
    cache_dir: Path | None = None
    """Where compiled scanner databases are kept; ``None`` keeps none."""
    gpu_hour_price: float | None = None
    """Price of one GPU-hour in the site's currency; without it no cost is reported."""
    engine: str = "auto"
    """Scanner engine: ``auto``, ``hyperscan`` or ``re2``."""

    @classmethod
    def from_environment(cls) -> Settings:
        """Read ``AIOPS_CATALOG`` (path list), ``AIOPS_CACHE_DIR``, ``AIOPS_ENGINE`` and ``AIOPS_GPU_HOUR_PRICE``.

        Raises:
            InputError: the price is not a number of 0 or more, or no engine has this name.
        """
        extra = tuple(Path(p) for p in os.environ.get("AIOPS_CATALOG", "").split(os.pathsep) if p)
        price = os.environ.get("AIOPS_GPU_HOUR_PRICE")
        engine = os.environ.get("AIOPS_ENGINE") or "auto"
        if engine not in ENGINES:
            raise InputError(f"AIOPS_ENGINE: {engine!r} is none of {', '.join(ENGINES)}")
        return cls(
            catalog_dirs=extra,
            cache_dir=default_cache_dir(),
            gpu_hour_price=parse_price(price, "AIOPS_GPU_HOUR_PRICE") if price else None,
            engine=engine,
        )


def parse_price(text: str, where: str) -> float:
    """A price of 0 or more.

    Raises:
        InputError: it is none; the message begins with ``where``.
    """
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise InputError(f"{where}: {text!r} is no price")
    return price


def default_cache_dir() -> Path:
    """``AIOPS_CACHE_DIR``, else the XDG cache directory."""
    own = os.environ.get("AIOPS_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "aiops"
