"""Many bundles at once: a pool of processes, a report for each, one table and one summary for all."""

from aiops.triage.bundles import Bundle, find_bundles
from aiops.triage.run import Failure, TriageResult, triage

__all__ = ["Bundle", "Failure", "TriageResult", "find_bundles", "triage"]
