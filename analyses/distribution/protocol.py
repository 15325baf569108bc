"""The distribution of a number over the rows of all parties' tables, each row randomized before it leaves its party.

| step | function |
| --- | --- |
| all members run the same plan | `agree_pairwise_secrets`, `confirm_pairwise_secrets` |
| rows into slots in secret random order, the others empty | `placed` |
| one response per slot [SW20, section 5] | `Wave.outputs_of` and its like |
| counts of the outputs, and the estimate | `analyses.distribution.estimate.estimated` |

No registry lists this analysis yet: `method = "masked"`, the same question by a masked sum, is still missing.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimate import estimated
from analyses.distribution.plan import SLOTS_PER_MESSAGE, DistributionParams, DistributionPlan, plan
from analyses.distribution.text import lines_of_distribution
from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import Survival
from analyses.rows.slots import EMPTY, placement
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave
from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.session import COORDINATOR, Session

__all__ = ["ANALYSIS", "DistributionParams", "DistributionPlan", "coordinator", "party", "plan", "reference"]

RESPONSES_STAGE = "responses"
"""Messages of parties to the coordinator: the gate lets them pass once the cost is committed."""

Integers = NDArray[np.int64]


async def party(session: Session, plan: DistributionPlan, table: Table | None) -> LocalReport:
    """Run a party's part: randomize my rows, send the responses.

    Raises:
        PeerError: a member is silent, lost or violates the protocol, before anything of the table was sent.

    Privacy: everybody may see the responses; see `DistributionPlan.privacy_events`.
    Cost: 2 rounds among the parties; 2 bytes per slot, or 1 where there are at most 256 outputs.
    """
    assert table is not None  # every member brings one: `plan` has checked it
    session.progress("keys", 0, 1)
    secrets = await agree_pairwise_secrets(session, range(1, plan.n_parties + 1), plan.n_parties)
    await confirm_pairwise_secrets(session, secrets)
    inputs, n_clipped = await session.compute(plan.inputs_of, table.values[:, 0])
    slots = await session.compute(placed, plan, inputs, session)
    await session.commit()  # a response is paid for before it is drawn
    responses = await responses_of(plan, slots, session)
    for start in range(0, len(responses), SLOTS_PER_MESSAGE):
        session.progress(RESPONSES_STAGE, start, len(responses))
        await session.send(COORDINATOR, RESPONSES_STAGE, _packed(plan, responses[start : start + SLOTS_PER_MESSAGE]))
    return LocalReport(table.n_rows, {table.schema.columns[0].name: n_clipped}, 0)


def placed(plan: DistributionPlan, inputs: Integers, session: Session) -> Integers:
    """Return the input of each slot, shape (slots,): those of my rows at uniformly random places, else the empty one.

    Args:
        plan: of the job.
        inputs: of my rows.
        session: my end; its entropy draws the places.
    """
    n_slots = plan.n_slots(session.me)
    rows = placement(KeyStream(session.entropy.read(KEY_BYTES)), len(inputs), n_slots, n_slots)
    found: Integers = np.where(rows == EMPTY, plan.empty, np.append(inputs, plan.empty)[rows])
    return found


async def responses_of(plan: DistributionPlan, slots: Integers, session: Session) -> Integers:
    """Draw one response per slot.

    Args:
        plan: of the job.
        slots: inputs, of `placed`.
        session: my end, which draws.
    """
    mechanism = plan.mechanism
    if isinstance(mechanism, Wave):
        return await session.compute(mechanism.outputs_of, slots, await session.draw(mechanism, len(slots)))
    choices = await session.compute(choices_of, plan, session, session.me)
    return await session.compute(mechanism.outputs_of, slots, choices, await session.draw(mechanism, choices))


def choices_of(plan: DistributionPlan, session: Session, member: int) -> PublicChoices:
    """Return the public choices of a member's slots: they follow from the job, as all its members know it."""
    question = hashlib.sha256(session.binding).digest()
    return PublicChoices(question, (f"{member}/{slot}" for slot in range(plan.n_slots(member))))


async def coordinator(session: Session, plan: DistributionPlan) -> dict[str, Any]:
    """Run the coordinator's part: gather all responses and estimate the distribution.

    Returns:
        JSON-able; see `analyses.distribution.estimate.estimated`.

    Raises:
        PeerError: a party sent too few responses, or one that is no output.
    """
    responses: dict[int, Integers] = {}
    for member in plan.owners:
        parts, n_slots = [], plan.n_slots(member)
        for start in range(0, n_slots, SLOTS_PER_MESSAGE):
            shape = (min(SLOTS_PER_MESSAGE, n_slots - start), _response_bytes(plan))
            parts.append(_unpacked(await session.receive(member, RESPONSES_STAGE, shape, np.uint8)))
        responses[member] = np.concatenate(parts)
        if responses[member].max() >= plan.n_outputs:
            raise PeerViolationError(member, RESPONSES_STAGE, "a response is no output of the mechanism")
    choices = {} if isinstance(plan.mechanism, Wave) else {m: choices_of(plan, session, m) for m in responses}
    return await session.compute(estimated, plan, responses, choices)


def _response_bytes(plan: DistributionPlan) -> int:
    return 1 if plan.n_outputs <= 256 else 2


def _packed(plan: DistributionPlan, responses: Integers) -> NDArray[np.uint8]:
    if _response_bytes(plan) == 1:
        return responses.astype(np.uint8)[:, None]
    return np.ascontiguousarray(responses, dtype="<u2").view(np.uint8).reshape(-1, 2)


def _unpacked(message: NDArray[np.uint8]) -> Integers:
    if message.shape[1] == 1:
        return message[:, 0].astype(np.int64)
    return np.ascontiguousarray(message).view("<u2")[:, 0].astype(np.int64)


def reference(tables: Sequence[Table], plan: DistributionPlan) -> NDArray[np.float64]:
    """Return the exact share of each bucket, shape (buckets,): no privacy.

    Args:
        tables: of all parties.
        plan: as for the job.
    """
    assert plan.params.range is not None
    values = np.clip(np.concatenate([table.values[:, 0] for table in tables]), *plan.params.range)
    found: NDArray[np.float64] = np.histogram(values, plan.edges)[0] / max(1, len(values))
    return found


def survival(job: Job) -> Survival:
    """Return that all parties must stay: what one of them does not send is missing from the estimate."""
    n = len(job.compute_parties)
    return Survival(n, job.t, 0, (), why_all="every party's responses are part of the estimate, so none may drop out")


ANALYSIS = Analysis(
    names=("distribution",),
    parameters=DistributionParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/distribution.md",
    demo="distribution",
    reference=reference,
    lines=lines_of_distribution,
)
