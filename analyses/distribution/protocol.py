"""The distribution of a number over the rows of all parties' tables: by responses, or by a masked sum.

Each row is randomized before it leaves its party [SW20, chapter 5], or, with method `masked`, the parties' counts are
added up under masks and get one noise (`analyses.distribution.masked`): the same question, the same result, far less
error, but what a party adds is its own word then. The coordinator and everybody who has the responses may know which
party each came from; what a response hides is the row's value, whoever looks.

    step                                                    function
    the range in parts; values outside count as its end     `Inquiry.inputs_of`
    all members run the same plan                           `agree_pairwise_secrets`, `confirm_pairwise_secrets`
    rows into slots in secret random order, the others      `placed`
    empty
    one response per slot: square wave [SW20, section 5],   `Wave.outputs_of`; of other methods
    or its like                                             `HierarchicalResponse.outputs_of`
    the half-width b of the wave [SW20, section 5.3]        `best_half_width`
    counts of the outputs, expectation maximisation with    `estimate_ems`, `choose_passes`
    smoothing [SW20, section 5.5]
    mean and variance in closed form, intervals             `moments`, `intervals_of_counts`
    masked: counts of all nodes of a tree, noise, sum       `TreeCounts.counted`, `SumNoise.draw`, `contribute`
    masked: least squares over the tree, then isotonic      `estimate_tree`, `isotonic`
    the answer                                              `described`
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.estimate import counted, estimated
from analyses.distribution.estimates.tally import Tally, tally_of
from analyses.distribution.forecast import forecast, signal
from analyses.distribution.inquiry import DistributionParams
from analyses.distribution.methods import MASKED, takes_choices
from analyses.distribution.plan import FEWEST_PARTIES, SLOTS_PER_MESSAGE, DistributionPlan, plan
from analyses.distribution.reference import reference
from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import Survival, every_party_needed
from analyses.rows.own_values import zeros_if_raised, zeros_instead
from analyses.rows.slots import EMPTY, placement
from analyses.sums.protocol import STAGES_PER_DEADLINE
from analyses.sums.protocol import survival as survival_of_a_sum
from analyses.sums.round import participation
from analyses.sums.sessions import session_sum
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.session import COORDINATOR, Session

__all__ = ["ANALYSIS", "DistributionParams", "DistributionPlan", "coordinator", "party", "plan", "reference"]

RESPONSES_STAGE = "responses"
"""Messages of parties to the coordinator: the gate lets them pass once the cost is committed."""

ATTEMPTS = 2
"""Rounds, each with fresh keys, before a masked sum fails that too few parties answer."""

Integers = NDArray[np.int64]

_ALL = slice(None)


async def party(session: Session, plan: DistributionPlan, table: Table | None) -> LocalReport:
    """Run a party's part: randomize my rows and send the responses, or take part in the masked sum of counts.

    Raises:
        PeerError: a member is silent, lost or violates the protocol, before anything of the table was sent.
        LeftBehindError: the others went on with a masked sum without us.

    Privacy: everybody may see the responses; of a masked sum at most t colluding parties and the coordinator learn
    nothing but the survivors' counts, noise included. See `DistributionPlan.releases`.
    Cost: 2 rounds among the parties; 2 bytes per slot, or 1 where there are at most 256 outputs. A masked sum has 6
    rounds over the coordinator, bits / 8 bytes per node of the tree and about 260 bytes per party.
    """
    assert table is not None  # every member brings one: `plan` has checked it
    if plan.mechanism is None:
        return await _add_counts(session, plan, table)
    session.progress("keys", 0, 1)
    secrets = await agree_pairwise_secrets(session, range(1, plan.n_parties + 1), plan.n_parties)
    await confirm_pairwise_secrets(session, secrets)
    inputs, n_clipped = await session.compute(inputs_of, plan, table)
    slots = await session.compute(placed, plan, inputs, session)
    await session.commit()  # a response is paid for before it is drawn
    responses = await responses_of(plan, table, slots, session)
    for start in range(0, len(responses), SLOTS_PER_MESSAGE):
        session.progress(RESPONSES_STAGE, start, len(responses))
        await session.send(COORDINATOR, RESPONSES_STAGE, _packed(plan, responses[start : start + SLOTS_PER_MESSAGE]))
    return _report(table, n_clipped)


async def _add_counts(session: Session, plan: DistributionPlan, table: Table) -> LocalReport:
    tree = plan.tree
    session.progress("rows", 0, 1)
    inputs, n_clipped = await session.compute(inputs_of, plan, table)
    counted = partial(tree.counts.counted, inputs[inputs != plan.inquiry.empty])
    counts = await session.compute(zeros_if_raised, table, counted, lambda: np.zeros(tree.counts.n_entries, np.int64))

    async def noise_of(seeds: Sequence[bytes]) -> Integers:
        return await session.draw(tree.noise, seeds)

    config_of = partial(tree.config_of, session)
    await session_sum.contribute(session, config_of, plan.n_parties, session.binding, counts, noise_of)
    return _report(table, n_clipped)


def _report(table: Table, n_clipped: Integers) -> LocalReport:
    names = (column.name for column in table.schema.columns)
    return LocalReport(table.n_rows, dict(zip(names, n_clipped.tolist(), strict=True)), 0)


def inputs_of(plan: DistributionPlan, table: Table) -> tuple[Integers, Integers]:
    """Return the input of each of my rows, and how many values of each column lay outside its range. Private."""
    return zeros_if_raised(
        table,
        lambda: plan.inquiry.inputs_of(table.values),
        lambda: (np.full(table.n_rows, plan.inquiry.empty), np.zeros(plan.params.n_values, dtype=np.int64)),
    )


def placed(plan: DistributionPlan, inputs: Integers, session: Session) -> Integers:
    """Return the input of each slot, shape (slots,): those of my rows at uniformly random places, else the empty one.

    Args:
        plan: plan of the job.
        inputs: inputs of my rows.
        session: my end; its entropy draws the places.
    """
    n_slots = plan.n_slots(session.me)
    rows = placement(KeyStream(session.entropy.read(KEY_BYTES)), len(inputs), n_slots, n_slots)
    found: Integers = np.where(rows == EMPTY, plan.inquiry.empty, np.append(inputs, plan.inquiry.empty)[rows])
    return found


async def responses_of(plan: DistributionPlan, table: Table, slots: Integers, session: Session) -> Integers:
    """Draw one response per slot.

    Args:
        plan: plan of the job.
        table: mine.
        slots: inputs, of `placed`.
        session: my end, which draws.
    """
    mechanism = plan.mechanism
    assert mechanism is not None
    outputs_of: Callable[[Integers], Integers]
    if isinstance(mechanism, Wave | SignResponse):
        outputs_of = partial(mechanism.outputs_of, draws=await session.draw(mechanism, len(slots)))
    else:
        choices = await session.compute(choices_of, plan, session, session.me)
        outputs_of = partial(mechanism.outputs_of, choices=choices, draws=await session.draw(mechanism, choices))
    return await session.compute(zeros_instead, table, outputs_of, slots, np.full_like(slots, plan.inquiry.empty))


def choices_of(plan: DistributionPlan, session: Session, member: int, part: slice = _ALL) -> PublicChoices:
    """Return the public choices of a member's slots: they follow from the job, as all its members know it.

    Args:
        plan: plan of the job.
        session: any member's end.
        member: whose slots.
        part: range of the slots.
    """
    question = hashlib.sha256(session.binding).digest()
    return PublicChoices(question, (f"{member}/{slot}" for slot in range(plan.n_slots(member))[part]))


async def coordinator(session: Session, plan: DistributionPlan) -> dict[str, Any]:
    """Run the coordinator's part: gather all responses, or host the masked sum, and estimate the distribution.

    Returns:
        JSON-able; see `analyses.distribution.estimates.estimate.described`. Of a masked sum also who is in it and who
        is not, as `analyses.sums.round.participation` says.

    Raises:
        PeerError: a party sent too few responses, or one that is no output.
        ProtocolError: the masked sum cannot be opened.
    """
    if plan.mechanism is None:
        return await _open_counts(session, plan)
    tally = tally_of(plan.inquiry.response)
    for member in plan.owners:
        n_slots = plan.n_slots(member)
        for start in range(0, n_slots, SLOTS_PER_MESSAGE):
            part = slice(start, min(start + SLOTS_PER_MESSAGE, n_slots))
            shape = (part.stop - start, plan.inquiry.response_bytes)
            responses = _unpacked(await session.receive(member, RESPONSES_STAGE, shape, np.uint8))
            if responses.max() >= plan.inquiry.n_outputs:
                raise PeerViolationError(member, RESPONSES_STAGE, "a response is no output of the mechanism")
            await session.compute(_add, tally, responses, plan, session, member, part)
    found = await session.compute(estimated, plan.inquiry, tally)
    return found | {"privacy": await session.compute(plan.report_of_result)}


def _add(tally: Tally, responses: Integers, plan: DistributionPlan, session: Session, member: int, part: slice) -> None:
    needs_choices = takes_choices(plan.inquiry.response)
    tally.add(responses, choices_of(plan, session, member, part) if needs_choices else None)


async def _open_counts(session: Session, plan: DistributionPlan) -> dict[str, Any]:
    tree = plan.tree
    opened, config = await session_sum.conduct(
        session,
        partial(tree.config_of, session),
        plan.n_parties,
        session.binding,
        stage_s=plan.job.deadline_s / STAGES_PER_DEADLINE,
        attempts=ATTEMPTS,
    )
    opened = await session.compute(tree.noise.remove_surplus, opened)
    variance = float(tree.variance(len(opened.survivors)))
    result = await session.compute(counted, plan.inquiry, tree.counts, opened.integers(), variance)
    return result | {"privacy": plan.privacy_report()} | participation(opened, config)


def _packed(plan: DistributionPlan, responses: Integers) -> NDArray[np.uint8]:
    if plan.inquiry.response_bytes == 1:
        return responses.astype(np.uint8)[:, None]
    return np.ascontiguousarray(responses, dtype="<u2").view(np.uint8).reshape(-1, 2)


def _unpacked(message: NDArray[np.uint8]) -> Integers:
    if message.shape[1] == 1:
        return message[:, 0].astype(np.int64)
    return np.ascontiguousarray(message).view("<u2")[:, 0].astype(np.int64)


def survival(job: Job) -> Survival:
    """Return how many parties may drop out: of a masked sum some, as of any; else none, as its responses would miss."""
    if job.parameters.get("method") == MASKED:
        return survival_of_a_sum(job)
    return every_party_needed(job, "every party's responses are part of the estimate, so none may drop out")


ANALYSIS = Analysis(
    names=("distribution",),
    parameters=DistributionParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/distribution.md",
    demo="distribution",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    fewest_parties=FEWEST_PARTIES,
    joins=False,
)
