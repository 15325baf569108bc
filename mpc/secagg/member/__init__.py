"""A member's half of a masked sum: one state, one file."""

from mpc.secagg.member.machine import SumMember

__all__ = ["SumMember"]
