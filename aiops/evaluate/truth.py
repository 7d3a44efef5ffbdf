"""The truth of a bundle: ``truth.yaml`` beside its ``bundle`` directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiops.errors import InputError

LABEL_KEYS = frozenset(
    {
        "verdict",
        "accept_classes",
        "culprit",
        "hardware",
        "requeue",
        "exclude",
        "checkpoint",
        "require_any_action",
        "forbid_actions",
        "allow_targets",
    }
)
"""Keys of a label; see ``docs/fixtures.md``."""
CULPRIT_KEYS = frozenset({"kind", "node", "gpu", "rank", "pci"})
CHECKPOINT_KEYS = frozenset({"rule", "restore", "step"})


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened in a bundle, for people (``title``, ``story``) and for `score` (``label``)."""

    title: str
    story: str
    label: Mapping[str, Any]


def load_truth(path: str | Path) -> Truth:
    """Read a ``truth.yaml``, or the one in a fixture's directory.

    Raises:
        InputError: the file is missing, is no YAML, lacks a part, or has a key that `score` would not look at.
    """
    import yaml

    path = Path(path)
    if path.is_dir():
        path = path / "truth.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"no readable truth: {error}", path=str(path)) from error
    for key, kind in (("title", str), ("story", str), ("label", dict)):
        if not isinstance(data, dict) or not isinstance(data.get(key), kind):
            raise InputError(f"needs {key!r} as a {kind.__name__}", path=str(path))
    label = data["label"]
    _check_keys(label, LABEL_KEYS, "label", path)
    _check_keys(label.get("culprit") or {}, CULPRIT_KEYS, "culprit", path)
    _check_keys(label.get("checkpoint") or {}, CHECKPOINT_KEYS, "checkpoint", path)
    if "verdict" not in label:
        raise InputError("the label has no verdict", path=str(path))
    return Truth(title=data["title"].strip(), story=" ".join(data["story"].split()), label=label)


def _check_keys(found: Any, known: frozenset[str], where: str, path: Path) -> None:
    if not isinstance(found, dict):
        raise InputError(f"{where} is not a mapping", path=str(path))
    strange = sorted(str(key) for key in found.keys() - known)
    if strange:
        raise InputError(f"unknown key in {where}: {', '.join(strange)}", path=str(path))
