"""The coordinator's half of a masked sum: one stage, one file."""

from mpc.secagg.coordinator.machine import FromMembers, SumCoordinator

__all__ = ["FromMembers", "SumCoordinator"]
