"""Runs a job in this process with its randomness fixed, and again on neighbouring tables with what it released frozen.

The parties' own code runs, with its planning, quantising, clipping, sharing and drawing; only the network is one in
this process. Whatever a run draws follows from a label. A second run on neighbouring tables

* draws the same bytes for keys, shares, coins and noise;
* hears from the coordinator what the first run heard, so that whatever depends on released values is the same; and
* where an owner adds noise step by step, gets at each step what the first run released.

So the two runs differ in what enters the mechanisms and in nothing else, unless other things depend on data that must
not. `differences` says what others could tell apart. `Run.opened` are the integers that the coordinator opens: of two
runs with the same noise their difference is *exactly* how far the neighbours move what is released. The method is that
of Re:cord-play and of DP-Auditorium.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.plan import Plan
from analyses.job.schema import Table
from analyses.matrix_factorization.vertical import Owner
from analyses.registry import analysis_of
from analyses.rows.own_values import zeros_if_raised
from analyses.run_locally import Part, local_network, run_plan
from audit.less_noise import with_noise
from dp.cost.views import View
from dp.mechanism.gram import NoisyGram
from dp.mechanism.release import Integers, StepwiseNoise
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.vector import SharedNoise
from entropy import Entropy, InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.local.network import Message
from mpc.progress import Quarters
from mpc.protocol.session import COORDINATOR, Array, Session
from mpc.secagg.opened_sum import OpenedSum

Word = tuple[str | int, ...]
"""Something that a member does and others may notice: a message without its values, an event of progress, a commit."""

OPENED_FROM_SHARES = (NoisyGram, SharedNoise, SampledSkellam)
"""Releases that the coordinator opens from shares, and whose noise is shared."""


@dataclass(frozen=True)
class Step:
    """One release of an owner that adds noise step by step.

    Attributes:
        member: the owner.
        values: values that enter the mechanism.
        variance: variance of the discrete Gaussian noise on each.
        released: values and noise.
    """

    member: int
    values: Integers = field(repr=False)
    variance: Fraction
    released: Integers = field(repr=False)


@dataclass(frozen=True)
class Drawn:
    """Noise that a member drew at once.

    Attributes:
        member: who.
        release: release of the plan to which the noise belongs.
        noise: integers, or what the mechanism draws instead.
    """

    member: int
    release: Any
    noise: Any = field(repr=False)


@dataclass
class Run:
    """A run of a job, and what it showed to whom.

    Attributes:
        plan: plan of the job.
        words: member to what it did that others may notice, in its order.
        heard: receiver, stage and number of a message of the coordinator to its array.
        sent: sender, stage and number of a message to the coordinator to its array.
        opened: the integers that the coordinator opened from shares or masked vectors, in order.
        own: member to the noisy sums of its own items, which it shows to nobody and goes on with.
        sums: integers of `opened` that came from masked vectors.
        drawn: noise, in the order of each member.
        steps: noise that is added step by step, in the order of each member.
        ended: error of the first member that failed; empty where the job succeeded.
        result: result of the coordinator; None where the job failed.
    """

    plan: Plan
    words: dict[int, list[Word]] = field(default_factory=dict)
    heard: dict[tuple[int, str, int], Array] = field(default_factory=dict, repr=False)
    sent: dict[tuple[int, str, int], Array] = field(default_factory=dict, repr=False)
    opened: list[NDArray[Any]] = field(default_factory=list, repr=False)
    own: dict[int, list[Integers]] = field(default_factory=dict, repr=False)
    sums: list[OpenedSum] = field(default_factory=list, repr=False)
    drawn: list[Drawn] = field(default_factory=list, repr=False)
    steps: dict[int, list[Step]] = field(default_factory=dict, repr=False)
    ended: str = ""
    result: Any = field(default=None, repr=False)


async def replay(
    plan: Plan,
    tables: Mapping[str, Table],
    *,
    label: str = "replay",
    first: Run | None = None,
    noise: Fraction = Fraction(1),
    analysis: Analysis | None = None,
) -> Run:
    """Run a job with fixed randomness.

    Args:
        plan: plan of the job, for these tables.
        tables: tables of the parties that bring columns.
        label: label from which all randomness follows.
        first: the run whose releases are frozen; None for a run of its own.
        noise: part of the noise that is drawn, for audits that must catch less than 1; 0 for none at all.
        analysis: replaces the analysis of the job, for tests.
    """
    run, analysis = Run(plan), analysis or analysis_of(plan.job)

    def frozen(message: Message) -> tuple[Message]:
        key = message.receiver, message.stage, message.sequence
        if message.sender == COORDINATOR:
            run.heard[key] = message.array.copy()
            if first is not None and key in first.heard and first.heard[key].shape == message.array.shape:
                return (message.altered(first.heard[key]),)
        elif message.receiver == COORDINATOR:
            run.sent[message.sender, message.stage, message.sequence] = message.array.copy()
        return (message,)

    def part_of(member: int) -> Part:
        async def part(session: Session) -> Any:
            watched = WatchedSession(session, run, label, first, noise)
            if member == COORDINATOR:
                return await analysis.coordinator(watched, plan)
            return await analysis.party(watched, plan, tables.get(plan.job.members[member - 1]))

        return part

    network = local_network(plan, entropy_of=lambda member: EntropyByReader(f"{label}, {member}"), fault=frozen)
    try:
        ended = await run_plan(plan, tables, network, parts={member: part_of(member) for member in network.names})
    except Exception as error:  # whatever a member raises is what others see of its values
        run.ended = type(error).__name__
        return run
    if ended.failures:
        run.ended = f"{type(ended.failures[0]).__name__}: {ended.failures[0]}"
        return run
    run.result = ended.ends[COORDINATOR]
    if any(isinstance(planned.release, OPENED_FROM_SHARES) for planned in plan.releases):
        run.opened = _opened_from_shares(run)
    return run


class EntropyByReader:
    """A reproducible source of which each function that reads it has a stream of its own.

    So how often one function reads, which may depend on the number of rows, changes nothing that another one draws.

    Args:
        label: any text; equal seeds give equal streams.
    """

    is_secure = False

    def __init__(self, label: str) -> None:
        self._label = label
        self._streams: dict[str, InsecureTestEntropy] = {}

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes of the stream of the function that calls."""
        reader = sys._getframe(1).f_code
        of_reader = f"{self._label}, {reader.co_filename.rpartition('/')[2]}, {reader.co_qualname}"
        return self._streams.setdefault(of_reader, InsecureTestEntropy(of_reader)).read(n_bytes)


class WatchedSession:
    """A session that writes down what its member does, and freezes what it draws. See `mpc.protocol.session.Session`.

    Args:
        session: the real one.
        run: where it is written.
        label: label of the noise.
        first: see `replay`.
        noise: see `replay`.
    """

    def __init__(self, session: Session, run: Run, label: str, first: Run | None, noise: Fraction) -> None:
        self._session, self._run, self._label, self._first, self._noise = session, run, label, first, noise
        self._words = run.words.setdefault(session.me, [])
        self._n_drawn, self._quarters = 0, Quarters()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send(self, to: int, stage: str, message: Array) -> None:
        """Write down the message without its values, and send it."""
        self._words.append(("sends", to, stage, str(message.dtype), str(message.shape)))
        await self._session.send(to, stage, message)

    def progress(self, stage: str, done: int, total: int) -> None:
        """Write down what a service tells of it, and report it."""
        self._words += [("reports", stage, percent) for percent in self._quarters.passed(stage, done, total)]
        self._session.progress(stage, done, total)

    async def commit(self) -> None:
        """Write it down."""
        self._words.append(("commits",))
        await self._session.commit()

    async def compute(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        """Work; keep the sum that a coordinator opens, and go on with that of the first run.

        Likewise the noisy sums of its own items that an owner computes with, and shows to nobody.
        """
        if work is zeros_if_raised and _takes_own_items(args[1]):
            args = (args[0], self._with_frozen_items(args[1]), *args[2:])
        found = await self._session.compute(work, *args, **kwargs)
        if isinstance(found, OpenedSum) and getattr(work, "__name__", "") == "open_sum":
            number = len(self._run.sums)
            self._run.sums.append(found)
            self._run.opened.append(found.integers())
            if self._first is not None and number < len(self._first.sums):
                return self._first.sums[number]
        return found

    def _with_frozen_items(self, take: partial[Any]) -> partial[Any]:
        sweep, noisy = take.args
        own = self._run.own.setdefault(self._session.me, [])
        before = [] if self._first is None else self._first.own[self._session.me][len(own) :]
        own.append(noisy.copy())
        return partial(take.func, sweep, *[first.copy() for first in before[:1] or [noisy]])

    async def draw(self, release: Any, *args: Any, **kwargs: Any) -> Any:
        """Draw what follows from the label, the member and how often it has drawn."""
        me = self._session.me
        entropy = InsecureTestEntropy(f"{self._label}, noise {self._n_drawn} of {me}")
        self._n_drawn += 1
        drawn = with_noise(release, self._noise or Fraction(1)).draw(entropy, *args, **kwargs)
        if not self._noise:
            assert isinstance(drawn, np.ndarray), "noise that is added step by step cannot be left out"
            drawn = np.zeros_like(drawn)
        if isinstance(drawn, StepwiseNoise):
            steps = self._run.steps.setdefault(me, [])
            return FrozenSteps(entropy, me, steps, None if self._first is None else self._first.steps.get(me, []))
        self._run.drawn.append(Drawn(me, release, drawn))
        return drawn


class FrozenSteps(StepwiseNoise):
    """Noise step by step, of which each step releases what it released in an earlier run.

    Args:
        entropy: random source of the noise.
        member: whose.
        steps: where they are written down.
        frozen: draws of the earlier run; None for a run of its own.
    """

    def __init__(self, entropy: Entropy, member: int, steps: list[Step], frozen: list[Step] | None) -> None:
        super().__init__(entropy)
        self._member, self._steps, self._frozen = member, steps, frozen

    def added_to(self, values: Integers, variance: Fraction) -> Integers:
        """See `StepwiseNoise`."""
        released = super().added_to(values, variance)
        number = len(self._steps)
        if self._frozen is not None and number < len(self._frozen):
            before = self._frozen[number]
            if before.released.shape == values.shape:
                released = before.released
        self._steps.append(Step(self._member, np.array(values), variance, released))
        return released.copy()


def _takes_own_items(work: Any) -> bool:
    return isinstance(work, partial) and getattr(work.func, "__func__", None) is Owner.take_items


def differences(first: Run, second: Run, view: View) -> list[str]:
    """Return what tells a run from that on neighbouring tables, although what is released is the same.

    Args:
        first: a run of its own.
        second: on neighbours, with the releases of the first frozen.
        view: whose. The coordinator and the analyst see messages to the coordinator, events of progress and commits. A
            coalition sees all messages; it knows the number of rows, which its neighbours share.
    """
    found = []
    if first.ended != second.ended:
        found.append(f"one run ends with {first.ended or 'a result'}, the other one with {second.ended or 'a result'}")
    for member in first.words:
        said = [_seen(run.words.get(member, []), member, view) for run in (first, second)]
        if said[0] != said[1]:
            found.append(f"member {member}: {_first_difference(*said)}")
    if list(first.result or ()) != list(second.result or ()):
        found.append("the results have other fields")
    for member, steps in first.steps.items():
        taken = [[(len(step.values), step.variance) for step in run] for run in (steps, second.steps.get(member, []))]
        if taken[0] != taken[1]:
            found.append(f"member {member} adds noise in other steps: {_first_difference(*taken)}")
    return found


def _seen(words: list[Word], member: int, view: View) -> list[Word]:
    if view == "coalition" or member == COORDINATOR:
        return words
    return [word for word in words if word[0] != "sends" or word[1] == COORDINATOR]


def _first_difference(one: list[Any], other: list[Any]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"{one[at : at + 1]} and {other[at : at + 1]}, of {len(one)} and {len(other)}"


def _opened_from_shares(run: Run) -> list[NDArray[Any]]:
    """Open what the compute parties sent to the coordinator for that, as anybody can who has the shares of all."""
    plan = run.plan
    openings: dict[tuple[str, int], dict[int, NDArray[Any]]] = {}
    for (sender, stage, number), array in run.sent.items():
        if "opening" in stage and array.dtype == np.uint64 and sender <= plan.n_parties:
            openings.setdefault((stage, number), {})[sender] = array
    of_field = ResidueField(plan.n_primes)
    found = []
    for shares in openings.values():
        if len(shares) == plan.n_parties:
            words = {party: share.reshape(of_field.n_words, -1) for party, share in shares.items()}
            found.append(of_field.decode(open_shares(words, plan.n_parties - 1, of_field).words).reshape(-1))
    return found
