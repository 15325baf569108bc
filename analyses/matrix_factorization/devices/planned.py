"""From a question to devices to its rounds: the same for every member, and refused before anything costs."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from analyses.job.job import JobError
from analyses.matrix_factorization.devices.descent_rounds import plan_descent_rounds
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.devices.statistics_rounds import plan_statistics
from analyses.matrix_factorization.plan import Members
from analyses.sums.round import RING_EXCESS, configure
from mpc.errors import ProtocolError
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, RoundConfig, Topology
from mpc.transcript import RoundId

MAX_MODEL_BYTES = 4 << 20
"""Largest model that is sent to devices before a round; `transport.aggregation` admits invitations of twice that."""


@lru_cache(maxsize=16)  # a member asks for the same rounds several times
def rounds_of(question: FactorQuestion, n_members: int) -> DeviceRounds:
    """Fix the rounds of a question that is put to so many members, or refuse it before anything costs.

    Raises:
        JobError: names the field that cannot be met.
    """
    try:
        if n_members <= MAX_COMPLETE_GRAPH_MEMBERS:
            topology, excess = Topology.complete(n_members, question.colluding), Fraction(0)
        else:
            topology, excess = Topology.ring(n_members, question.colluding, question.vanishing), RING_EXCESS
        members = Members(n_members, topology.n_corrupt, topology.fewest_survivors, excess)
        rounds: DeviceRounds
        if question.form == "sgd":
            rounds = plan_descent_rounds(question, topology, members)
        else:
            rounds = plan_statistics(question, topology, members)
        if rounds.broadcast.n_bytes > MAX_MODEL_BYTES:
            raise JobError(f"items, rank: a model of {rounds.broadcast.n_bytes} bytes; at most {MAX_MODEL_BYTES}")
        for number in range(rounds.n_rounds):
            rounds.ring(number)
    except ProtocolError as error:
        raise JobError(f"members, colluding, items: {error}") from error
    return rounds


def factor_round_config(rounds: DeviceRounds, round_id: RoundId, identities: Mapping[str, bytes]) -> RoundConfig:
    """Fix everything public about one attempt of a round.

    Args:
        rounds: the question's rounds.
        round_id: the attempt's id.
        identities: all members of the round, name to Ed25519 key, in the order of their numbers.

    Raises:
        JobError: there is no such round or attempt, or these do not fit each other.
    """
    question = rounds.question
    if not (0 <= round_id.number < rounds.n_rounds and 0 <= round_id.attempt < question.attempts):
        raise JobError(
            f"the question has {rounds.n_rounds} rounds and {question.attempts} attempts of each, and no attempt "
            f"number {round_id.attempt} of round number {round_id.number}, counted from 0"
        )
    number = round_id.number
    try:
        return configure(
            round_id,
            tuple(identities.items()),
            rounds.topology,
            rounds.ring(number),
            question.record,
            rounds.encoding(number),
            rounds.noise(number),
        )
    except ProtocolError as error:
        raise JobError(f"members, colluding, items: {error}") from error
