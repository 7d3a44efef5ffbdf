"""What an action would touch, as names that were seen in the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Target:
    """Names for a command. Every one of them is checked against its grammar before it is used."""

    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    job: str | None = None
    name: str | None = None
    kind: str | None = None
    namespace: str | None = None
    exclude: list[str] = field(default_factory=list)
    failed_object: bool = False
    """The job's Kubernetes object has failed for good and can only be made anew."""
    incident: str = "inc"
    code: str = ""
