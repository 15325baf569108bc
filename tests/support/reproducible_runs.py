"""Runs of a plan in one process whose members draw what a seed says."""

from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR


async def run(plan, tables, seed="member", *, with_coordinator=True):
    """Run all members; return member number to result or error, and the network."""
    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"{seed} {m}"))
    absent = () if with_coordinator else (COORDINATOR,)
    return (await run_plan(plan, tables, network, absent=absent)).ends, network
