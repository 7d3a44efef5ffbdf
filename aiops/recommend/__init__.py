"""Incident → actions: requeue verdict, checkpoint, and the exact commands of the scheduler that owns the target."""

from aiops.recommend.plan import Plan, PlannedAction, recommend

__all__ = ["Plan", "PlannedAction", "recommend"]
