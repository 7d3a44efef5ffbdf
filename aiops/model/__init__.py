"""The vocabulary that all rooms share. Pydantic models of the report live in `aiops.model.report`."""

from aiops.model.case import (
    Case,
    Checkpoint,
    Coverage,
    Job,
    KubernetesObject,
    Problem,
    RankPlace,
    Source,
    Topology,
)
from aiops.model.domains import Domain, DomainTree, Edge, Hierarchy
from aiops.model.entity import Entity, EntityKind, canonical_pci, is_host_name
from aiops.model.event import NO_TIME, Event, EventTable, Severity, TimeQuality
from aiops.model.finding import EvidenceRef, Finding, Role
from aiops.model.flight import FlightDump, FlightRecords, GroupStatus, OpState, ProcessGroup, Signature
from aiops.model.series import SeriesBlock, SeriesEntity

__all__ = [
    "NO_TIME",
    "Case",
    "Checkpoint",
    "Coverage",
    "Domain",
    "DomainTree",
    "Edge",
    "Entity",
    "EntityKind",
    "Event",
    "EventTable",
    "EvidenceRef",
    "Finding",
    "FlightDump",
    "FlightRecords",
    "GroupStatus",
    "Hierarchy",
    "Job",
    "KubernetesObject",
    "OpState",
    "Problem",
    "ProcessGroup",
    "RankPlace",
    "Role",
    "SeriesBlock",
    "SeriesEntity",
    "Severity",
    "Signature",
    "Source",
    "TimeQuality",
    "Topology",
    "canonical_pci",
    "is_host_name",
]
