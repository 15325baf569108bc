"""Dealing shares over a session: what crosses the network and what both ends derive from their pairwise key."""

import asyncio
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import Opening, open_shares
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import (
    LocalFaultError,
    OutOfRangeError,
    PeerError,
    PeerLostError,
    PeerSilentError,
    PeerViolationError,
    ShapeError,
    TooFewPartiesError,
)
from mpc.protocol.concurrency import MOST_WORDS_HERE, compute, run_together
from mpc.protocol.greeting import exchange_public_keys
from mpc.protocol.pairwise import EphemeralKey, PairwiseSecret, pairwise_secret
from mpc.protocol.session import Array, Session

Words = NDArray[np.uint64]
P = ParamSpec("P")
R = TypeVar("R")

CONFIRMATION_STAGE = "key confirmation"


async def agree_pairwise_secrets(session: Session, members: Sequence[int], n_parties: int) -> dict[int, PairwiseSecret]:
    """Agree on a fresh secret with every member that deals to us or receives from us.

    One round: each sends an ephemeral X25519 key over the authenticated channel, and with it the binding of the job
    (`mpc.protocol.greeting`). Two input-only members deal each other nothing; where they have to agree on keys
    (`mpc.protocol.hashkey`), give the number of all members as `n_parties`.

    Args:
        session: my end of the job.
        members: all member numbers but the coordinator's; compute parties are 1..n_parties.
        n_parties: number of compute parties.

    Returns:
        Member number to the secret that only the two of us can compute.

    Raises:
        DifferentTermsError: a peer has another binding, or says so.
        PeerViolationError: a peer sent a point of low order.
        PeerError: a peer is silent or drops out.

    Privacy: the coordinator sees none of these messages. Cost: 1 round, 64 bytes per pair and direction.
    """
    peers = [m for m in members if m != session.me and (m <= n_parties or session.me <= n_parties)]
    mine = EphemeralKey(session.entropy)
    return {
        peer: pairwise_secret(mine, theirs, binding=session.binding, my_number=session.me, their_number=peer)
        for peer, theirs in (await exchange_public_keys(session, peers, mine.public_bytes)).items()
    }


async def confirm_pairwise_secrets(
    session: Session, secrets: Mapping[int, PairwiseSecret], parameters: bytes = b""
) -> None:
    """Check that every peer has the same pairwise secret as I have, and computes with the same parameters.

    The secrets and what is said here are bound to the terms of the job (`mpc.protocol.greeting`). A member says it
    only when every peer of its own has shown the same binding. So two input-only members, who greet each other
    nowhere, know that they have the same terms from each honest compute party, which has compared its own with those
    of both.

    Args:
        session: my end of the job.
        secrets: result of `agree_pairwise_secrets`.
        parameters: digest of what we both have to compute with; empty where something else makes sure of that.

    Raises:
        PeerViolationError: a peer has another secret or other parameters.
        PeerError: a peer is silent or drops out.

    Privacy: digests under the secrets themselves. Cost: 1 round, 32 bytes per pair and direction.
    """

    def digest(peer: int, sender: int) -> NDArray[np.uint8]:
        data = session.binding + b"from %d" % sender + (b" with " + parameters if parameters else b"")
        return np.frombuffer(secrets[peer].digest("confirmation", data), dtype=np.uint8)

    async def with_peer(peer: int) -> None:
        await session.send(peer, CONFIRMATION_STAGE, digest(peer, session.me))
        expected = digest(peer, peer)
        theirs = await session.receive(peer, CONFIRMATION_STAGE, expected.shape, np.uint8)
        if not hmac.compare_digest(theirs.tobytes(), expected.tobytes()):
            what = f"{session.names[peer]} has a different pairwise secret"
            what += ", or a different field, roster, t or name of the computation" if parameters else ""
            raise PeerViolationError(peer, CONFIRMATION_STAGE, what)

    await asyncio.gather(*(with_peer(peer) for peer in secrets))


@dataclass(frozen=True)
class ShareExchange:
    """Deals and takes shares of one job in one field.

    With every pairwise key, `degree` of the receivers derive their shares of a dealer's input; only the others' shares
    travel (design: pairwise-key compression). Any `degree` shares of an input are uniform, so this reveals nothing.

    Attributes:
        session: my end of the job.
        field: field of all shares.
        n_parties: N; the receivers of shares are 1..N.
        t: degree of inputs and number of colluding parties tolerated, 2t + 1 <= N.
        secrets: result of `agree_pairwise_secrets`.
    """

    session: Session
    field: ResidueField
    n_parties: int
    t: int
    secrets: Mapping[int, PairwiseSecret]

    def __post_init__(self) -> None:
        if 2 * self.t + 1 > self.n_parties:
            raise TooFewPartiesError(
                f"tolerating {self.t} colluding parties needs {2 * self.t + 1} compute parties, not {self.n_parties}"
            )
        if self.n_parties >= min(self.field.primes):
            raise TooFewPartiesError(
                f"{self.n_parties} parties need distinct abscissas below the smallest prime {min(self.field.primes)}"
            )

    @property
    def am_receiver(self) -> bool:
        """Whether I hold shares."""
        return 1 <= self.session.me <= self.n_parties

    def scheme(self, degree: int) -> ShamirScheme:
        """Return the sharing of this degree among the compute parties."""
        return ShamirScheme(self.field, self.n_parties, degree)

    async def compute(self, n_words: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do local arithmetic on so many words, see `mpc.protocol.concurrency.compute`."""
        return await compute(self.session, n_words, work, *args, **kwargs)

    async def deal(self, label: str, block: int, secret: Words, degree: int) -> Words | None:
        """Share one array of mine. Receivers that dropped out are skipped; members that need them will notice.

        Args:
            label: what it is; the stage under which the shares travel. Unique within the job.
            block: 0, 1, 2 ... within the label, in the order in which they are sent.
            secret: packed words, shape (n_words, ...), values of mine.
            degree: degree of the polynomial: t for inputs, 2t for noise.

        Returns:
            My own share if I am a compute party, else None.
        """
        return await self._send(
            label, await self.compute(secret.size, self._split, label, block, secret, degree), degree
        )

    async def deal_made(
        self, label: str, block: int, make: Callable[[], Words], degree: int, n_words: int = MOST_WORDS_HERE + 1
    ) -> Words | None:
        """Share one array of mine as `deal` does; it is made in the thread that shares it: one way there, not two.

        Args:
            label: label given to `deal`.
            block: block given to `deal`.
            make: returns the packed words.
            degree: degree given to `deal`.
            n_words: how many it makes, where that says how long it takes; else it is always done in a thread.
        """
        shares = await self.compute(n_words, lambda: self._split(label, block, make(), degree))
        return await self._send(label, shares, degree)

    async def _send(self, label: str, shares: Mapping[int, Words], degree: int) -> Words | None:
        me = self.session.me
        explicit = [r for r in self.scheme(degree).explicit_receivers(me) if r != me]
        await asyncio.gather(*(send_unless_lost(self.session, r, label, shares[r]) for r in explicit))
        return shares.get(me)

    def _split(self, label: str, block: int, secret: Words, degree: int) -> dict[int, Words]:
        me, shape = self.session.me, secret.shape[1:]
        scheme = self.scheme(degree)
        derived = {
            r: self.field.random(self.secrets[r].stream(me, r, label, block), shape)
            for r in scheme.derived_receivers(me)
        }
        return scheme.deal(me, secret, derived)

    async def take(self, dealer: int, label: str, block: int, shape: tuple[int, ...], degree: int) -> Words:
        """Return my share of an array of another member; arguments as `deal`, `shape` without the words axis.

        Raises:
            LocalFaultError: I have no secret in common with such a dealer: it is not in the roster.
            PeerViolationError: a word is not a packed field element.
            PeerError: the dealer is silent or drops out.
        """
        shares = await self.take_all({dealer: shape}, label, block, degree)
        return shares[dealer]

    async def take_all(
        self, shapes: Mapping[int, tuple[int, ...]], label: str, block: int, degree: int
    ) -> dict[int, Words]:
        """Return my shares of an array from each of several dealers; their streams and checks are one step of work.

        Args:
            shapes: dealer to the shape of its array, without the words axis.
            label: label given to `deal`.
            block: block given to `deal`.
            degree: degree given to `deal`.

        Raises:
            LocalFaultError, PeerViolationError, PeerError: see `take`; raised for the first dealer that fails.
        """
        receives = [self._arrival(dealer, label, shape, degree) for dealer, shape in shapes.items()]
        arrived = dict(zip(shapes, await run_together(*receives), strict=True))
        return await self._in_one_step(shapes, lambda: self._shares_of(shapes, label, block, arrived))

    async def take_each(
        self, shapes: Mapping[int, tuple[int, ...]], label: str, block: int, degree: int
    ) -> dict[int, Words | PeerError]:
        """Return for each dealer what `take_all` does, or why it failed; waits for all of them."""

        async def arrival(dealer: int) -> Words | PeerError | None:
            try:
                return await self._arrival(dealer, label, shapes[dealer], degree)
            except PeerError as error:
                return error

        arrived = dict(zip(shapes, await asyncio.gather(*map(arrival, shapes)), strict=True))

        def share_of(dealer: int) -> Words | PeerError:
            words = arrived[dealer]
            try:
                return words if isinstance(words, PeerError) else self._share_of(shapes, label, block, dealer, words)
            except PeerViolationError as error:
                return error

        return await self._in_one_step(shapes, lambda: {dealer: share_of(dealer) for dealer in shapes})

    async def _in_one_step(self, shapes: Mapping[int, tuple[int, ...]], work: Callable[[], R]) -> R:
        return await self.compute(self.field.n_words * sum(map(prod, shapes.values())), work)

    async def _arrival(self, dealer: int, label: str, shape: tuple[int, ...], degree: int) -> Words | None:
        """Wait for what a dealer sends me, unchecked; None where I derive it."""
        me = self.session.me
        if dealer not in self.secrets:
            raise LocalFaultError(f"member {dealer} deals no shares to member {me}")
        if me in self.scheme(degree).derived_receivers(dealer):
            return None
        return await self.session.receive(dealer, label, (self.field.n_words, *shape))

    def _shares_of(
        self, shapes: Mapping[int, tuple[int, ...]], label: str, block: int, arrived: Mapping[int, Words | None]
    ) -> dict[int, Words]:
        return {dealer: self._share_of(shapes, label, block, dealer, words) for dealer, words in arrived.items()}

    def _share_of(
        self, shapes: Mapping[int, tuple[int, ...]], label: str, block: int, dealer: int, words: Words | None
    ) -> Words:
        if words is None:
            stream = self.secrets[dealer].stream(dealer, self.session.me, label, block)
            return self.field.random(stream, shapes[dealer])
        check_from(self.field, words, dealer, label, self.session.names[dealer])
        return words

    async def deal_and_sum(self, label: str, secret: Words, degree: int, block: int = 0) -> Words:
        """Deal an array and return my share of the sum of what all compute parties dealt under this label and block.

        For values that no coalition of t parties may know: random elements, zeros, noise.
        """
        own = await self.deal(label, block, secret, degree)
        assert own is not None, "only compute parties contribute"
        total = own.copy()
        for party in range(1, self.n_parties + 1):
            if party != self.session.me:
                self.field.accumulate(total, await self.take(party, label, block, secret.shape[1:], degree))
        return total

    async def open(
        self,
        label: str,
        share: Words | None,
        shape: tuple[int, ...],
        degree: int,
        receivers: Sequence[int],
        senders: Sequence[int] | None = None,
        *,
        deviating: int = 0,
    ) -> Opening | None:
        """Reveal a shared array to some members.

        The polynomials of what is opened must be uniform but for their value at 0 (fresh, or hidden by a sharing of
        zero or of noise of the same degree).

        A party whose message is not an array of field elements of this shape counts as one that sent nothing, as long
        as enough others answered; it is named among the parties with corrupted shares. All of these are passed to
        `Session.accuse`, too.

        Waits for all senders, each until its deadline, also where `degree + 1` have answered: the others' shares are
        what a wrong one is found by, and whoever answers first must not be able to choose who is checked. So a silent
        party costs one deadline. Where so many have failed that too few can still answer, it fails at once.

        Args:
            label: stage of the messages, unique within the job.
            share: mine, shape (n_words, *shape), where I am a compute party.
            shape: shape of the array.
            degree: degree of its sharing.
            receivers: member numbers that learn the values; 0 is the coordinator.
            senders: the parties whose shares count, besides mine; default: all.
            deviating: number of them that may choose shares together. Above 0 each has to answer, as who sent the
                others could choose what is opened where some are missing; and see `open_shares`.

        Returns:
            The values and the members that sent corrupted shares, at a receiver; None at other members.

        Raises:
            TooFewSharesError, InconsistentSharesError: see `mpc.arithmetic.opening.open_shares`.
            PeerError: fewer than degree + 1 parties answered, or not all that are needed; names one that did not.
        """
        me, shares = self.session.me, {}
        counted = range(1, self.n_parties + 1) if senders is None else senders
        if share is not None:
            if share.shape != (self.field.n_words, *shape):
                raise ShapeError(f"the share has shape {share.shape[1:]}, but the array to be opened has shape {shape}")
            others = [r for r in receivers if r != me]
            await asyncio.gather(*(send_unless_lost(self.session, r, label, share) for r in others))
            shares[me] = share
        if me not in receivers:
            return None
        awaited = [p for p in counted if p != me]
        failures: dict[int, PeerError] = {}
        tasks = {asyncio.create_task(self._share_or_failure(p, label, shape)): p for p in awaited}
        pending = set(tasks)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    answer = task.result()
                    if isinstance(answer, PeerError):
                        failures[tasks[task]] = answer
                    else:
                        shares[tasks[task]] = answer
                if failures and (deviating or len(shares) + len(pending) < degree + 1):
                    raise min(failures.items())[1]
        finally:
            for task in pending:
                task.cancel()
        n_opened = sum(words.size for words in shares.values())
        opening = await self.compute(n_opened, open_shares, shares, degree, self.field, deviating)
        violators = (sender for sender, failure in failures.items() if isinstance(failure, PeerViolationError))
        wrong = tuple(sorted({*opening.wrong, *violators}))
        for sender in wrong:
            what = f"{self.session.names[sender]} sent a corrupted share, which was corrected"
            self.session.accuse(sender, label, what)
        return replace(opening, wrong=wrong)

    async def _share_or_failure(self, sender: int, label: str, shape: tuple[int, ...]) -> Words | PeerError:
        try:
            words = await self.session.receive(sender, label, (self.field.n_words, *shape))
            await self.compute(words.size, check_from, self.field, words, sender, label, self.session.names[sender])
        except PeerError as error:
            return error
        return words


async def send_unless_lost(session: Session, to: int, stage: str, message: Array) -> None:
    """Send to a member that may have dropped out: members that need its answer will notice its absence."""
    try:
        await session.send(to, stage, message)
    except (PeerLostError, PeerSilentError):
        return


def check_from(field: ResidueField, words: Words, member: int, stage: str, name: str) -> None:
    """Refuse words from a member that are not packed elements of the field.

    Raises:
        PeerViolationError: names the member and the stage.
    """
    try:
        field.check(words)
    except OutOfRangeError as error:
        raise outside_field(member, stage, name) from error


def outside_field(member: int, stage: str, name: str) -> PeerViolationError:
    """Return the fault of a member that sent what is no element of the field."""
    return PeerViolationError(member, stage, f"{name} sent a value outside the field in stage {stage}")
