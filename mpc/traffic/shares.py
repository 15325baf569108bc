"""What operations on shares send: those of `mpc.protocol.exchange` and `mpc.protocol.operations`, walked through."""

from collections.abc import Callable, Mapping, Sequence

from mpc.arithmetic.compact import CompactForm, has_compact_form
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.protocol.double_sharing import N_COMBINATIONS as N_MASK_CHECKS
from mpc.protocol.double_sharing import double_sharings_win
from mpc.protocol.equality import N_ELEMENTS
from mpc.protocol.hashkey import DIGEST_BYTES
from mpc.protocol.product_check import N_COINS, n_coins
from mpc.protocol.product_check import N_COMBINATIONS as N_PRODUCT_CHECKS
from mpc.protocol.reduction import SEGMENT
from mpc.protocol.session import COORDINATOR
from mpc.traffic.walk import Sent, Traffic, pairwise

WORD_BYTES = 8

SEGMENTS_AHEAD = 3
"""Segments of an operation that are dealt before the first is taken: two wait in a queue, and one to get into it."""

BLOCKS_AHEAD = 4
"""Blocks of rows that are dealt before the first has come: one is taken beforehand besides."""

MOST_BLOCKS_WALKED = 32
"""Blocks of rows of which each is walked through; a multiple of `BLOCKS_AHEAD`."""


class SumTraffic:
    """What a `ProductSum` or a `GramSum` sends: nothing."""

    def add(self, length: int, size: int) -> None:
        """Walk through `add`.

        Args:
            length: products that an entry adds up.
            size: entries of the factors.
        """

    def total(self) -> None:
        """Walk through `total` or `triangle`."""


class ShareTraffic:
    """What operations on shares send.

    Args:
        traffic: traffic of the job; extended in place.
        n_primes: primes of the field.
        n_parties: N, those that hold shares: members 1 .. N.
        t: degree of inputs.

    Attributes:
        n_products: number of elements that were brought back to degree t so far.
        n_opened: number of elements that were opened to compute parties so far.
    """

    proves_products = False

    def __init__(self, traffic: Traffic, n_primes: int, n_parties: int, t: int) -> None:
        self.traffic, self.n_primes, self.n_parties, self.t = traffic, n_primes, n_parties, t
        self._field = ResidueField(n_primes)
        self.parties = range(1, n_parties + 1)
        self.element_bytes = WORD_BYTES * self._field.n_words
        self._unchecked: set[int] = set()
        self._has_coin = False
        self._coordinator_knows = False
        self.n_products = self.n_opened = 0

    @property
    def n_words(self) -> int:
        """Words of an element."""
        return self._field.n_words

    @property
    def has_surplus(self) -> bool:
        """Whether N > 2t + 1: parties agree on who has dealt (`mpc.protocol.agreement`)."""
        return self.n_parties > 2 * self.t + 1

    def receivers_of(self, dealer: int, degree: int) -> list[int]:
        """Return to whom a dealer sends shares: the others derive theirs."""
        scheme = ShamirScheme(self._field, self.n_parties, degree)
        return [receiver for receiver in scheme.explicit_receivers(dealer) if receiver != dealer]

    def dealt(self, dealer: int, n_elements: int, degree: int | None = None) -> list[Sent]:
        """Return the messages of `ShareExchange.deal`, degree t by default."""
        receivers = self.receivers_of(dealer, self.t if degree is None else degree)
        return [Sent(dealer, receiver, n_elements * self.element_bytes) for receiver in receivers]

    def dealt_by_all(self, n_elements: int, degree: int | None = None) -> list[Sent]:
        """Return the messages of `ShareExchange.deal_and_sum`."""
        return [message for dealer in self.parties for message in self.dealt(dealer, n_elements, degree)]

    def inputs(self, sizes: Mapping[int, int], degree: int | None = None) -> None:
        """Walk through `Computation.inputs`: dealer to its number of elements; of degree t by default."""
        self.traffic.step(message for dealer, size in sizes.items() for message in self.dealt(dealer, size, degree))

    def random_parts(self, n_bits: int, n_values: int, sizes: Sequence[int]) -> None:
        """Walk through what t + 1 parties deal in `Bits._random_parts`; arguments as of that."""
        n_dealt = n_bits + n_values * len(sizes)
        self.inputs(dict.fromkeys(range(1, self.t + 2), n_dealt))

    def prepare_bits(self, n_bits: int) -> None:
        """Walk through `Bits.prepare_bits`."""

    @property
    def product_degree(self) -> int:
        """Degree of sums of products."""
        return 2 * self.t

    def product_sum(self, n_elements: int) -> SumTraffic:
        """Walk through `Computation.product_sum` or `gram_sum`, of so many entries."""
        return SumTraffic()

    def noise(self, n_elements: int) -> None:
        """Walk through `Computation.noise`."""
        self.traffic.step(self.dealt_by_all(n_elements, self.product_degree))

    def shared_noise(self, n_elements: int) -> None:
        """Walk through `Computation.shared_noise`."""
        self.inputs(dict.fromkeys(self.parties, n_elements))

    def check_equal(self, members: Sequence[int], compared: Sequence[int]) -> None:
        """Walk through `check_equal`."""
        n_others = len(compared) - 1
        if not n_others:
            return
        digests = [message for owner in compared for message in self.dealt(owner, N_ELEMENTS)]
        masks = [*self.dealt_by_all(n_others * N_ELEMENTS), *self.dealt_by_all(n_others * N_ELEMENTS, 2 * self.t)]
        self.traffic.step([*digests, *masks])
        size = n_others * N_ELEMENTS * self.element_bytes
        self.traffic.step(Sent(p, m, size) for p in self.parties for m in members if m != p)

    def rows(self, widths: Mapping[int, int], n_rows: int, height: int, *, completes_input: bool = True) -> None:
        """Walk through `Computation.rows`: a few blocks are dealt ahead of those that have come.

        Of many blocks the first ones are walked through: from then on clocks advance alike every `BLOCKS_AHEAD` blocks.
        """
        n_blocks = -(-n_rows // height)
        receivers = {owner: self.receivers_of(owner, self.t) for owner in widths}
        for owner, width in widths.items():
            for receiver in receivers[owner]:
                self.traffic.sent[owner, receiver] += self._bytes_of_rows(width, n_rows, height)
        n_walked = min(n_blocks, MOST_BLOCKS_WALKED + n_blocks % BLOCKS_AHEAD)
        n_turns = (n_blocks - n_walked) // BLOCKS_AHEAD
        done = {member: [self.traffic.clock_of(member)] for member in {*widths, *self.parties}}
        left: dict[int, list[int]] = {owner: done[owner][:] for owner in widths}
        for number in range(n_walked):
            for owner in widths:
                # An owner without shares takes nothing, so nothing holds it up.
                waits = number >= BLOCKS_AHEAD and owner <= self.n_parties
                left[owner].append(done[owner][number - BLOCKS_AHEAD + 1] if waits else done[owner][0])
            for party in self.parties:
                came = [left[o][-1] + 1 for o, width in widths.items() if width and party in receivers[o]]
                done[party].append(max([done[party][-1], *came]))

        def at_end(clocks: Sequence[int]) -> int:
            return clocks[-1] + (n_turns * (clocks[-1] - clocks[-1 - BLOCKS_AHEAD]) if n_turns else 0)

        if completes_input and self.has_surplus:
            for owner in widths:
                self.traffic.commit([owner], at=at_end(left[owner]))
        for party in self.parties:
            self.traffic.wait_until(party, at_end(done[party]))

    def _bytes_of_rows(self, width: int, n_rows: int, height: int) -> int:
        """Return how many bytes the rows of a dealer take on their way to one receiver (`RowShares`)."""
        if not has_compact_form(self._field):
            return n_rows * width * self.element_bytes
        words_of = CompactForm(self._field).n_words
        n_whole, n_last = divmod(n_rows, height)
        return WORD_BYTES * (n_whole * words_of(height * width) + words_of(n_last * width))

    def rows_in_step(
        self,
        widths: Mapping[int, int],
        n_rows: int,
        height: int,
        each: Callable[[int], None],
        *,
        completes_input: bool = True,
    ) -> None:
        """Walk through `Computation.rows_in_step`; `each` walks through what is done with so many rows."""
        n_whole = max(0, -(-n_rows // height) - 1)

        def block(n_block: int, *, is_last: bool) -> None:
            self.inputs({owner: n_block * width for owner, width in widths.items()})
            if is_last and completes_input and self.has_surplus:
                self.traffic.commit(widths)
            each(n_block)

        if n_whole:
            self.traffic.repeat(n_whole, lambda: block(height, is_last=False))
        if n_rows:
            block(n_rows - n_whole * height, is_last=True)

    def reduce(self, n_elements: int, degree: int | None = None) -> None:
        """Walk through `Computation.reduce`, of products of degree 2t by default."""
        if not n_elements:
            return
        self.traffic.has_intermediate_products = True
        self.n_products += n_elements
        if double_sharings_win(self.n_parties, self.t, n_elements, self.n_words):
            self._double_sharings(n_elements, -(-n_elements // SEGMENT))
            return
        degree = 2 * self.t if degree is None else degree
        n_coin = n_coins(self.n_parties, degree, n_elements)
        self._combine_dealt(n_elements + n_coin, self.t, beside=self._coin())
        if n_coin:
            self._has_coin = True
            self._unchecked.add(degree)

    def reduce_in_turn(self, n_elements: int, times: int) -> None:
        """Reduce so many elements so often, one time after the other."""
        for _ in range(times):
            self.reduce(n_elements)

    def zeros(self, n_elements: int, degree: int) -> None:
        """Walk through `zero_sharing`."""
        self._combine_dealt(n_elements, degree)

    def check_products(self) -> None:
        """Walk through `ProductCheck.verify`."""
        if not self._unchecked:
            return
        self.traffic.step([*pairwise(self.parties, WORD_BYTES), *self._coin()])
        n_opened = sum(self.n_parties - degree - 1 for degree in self._unchecked) * N_PRODUCT_CHECKS
        self.traffic.step(pairwise(self.parties, n_opened * self.element_bytes))
        self._unchecked.clear()

    def open(self, n_elements: int, degree: int) -> None:
        """Walk through `Computation.open`, to the coordinator."""
        self.check_products()
        if degree > self.t:
            self.zeros(n_elements, degree)
        self.traffic.pass_gate(self.parties)
        self.traffic.step(self._to_coordinator(n_elements))

    def open_to_all(self, n_elements: int, degree: int) -> None:
        """Walk through `Computation.open`, to the coordinator and all compute parties."""
        self.open_among_parties(n_elements, degree, beside=self._to_coordinator(n_elements))

    def _to_coordinator(self, n_elements: int) -> list[Sent]:
        messages = [Sent(p, COORDINATOR, n_elements * self.element_bytes) for p in self.parties]
        if self.has_surplus:
            messages += [Sent(p, COORDINATOR, WORD_BYTES) for p in self.parties]
        if not self._coordinator_knows:
            messages += [Sent(p, COORDINATOR, DIGEST_BYTES) for p in self.parties]
            self._coordinator_knows = True
        return messages

    def open_among_parties(self, n_elements: int, degree: int | None = None, beside: Sequence[Sent] = ()) -> None:
        """Walk through `Computation.open`, to all compute parties; arrays have degree t by default."""
        self.n_opened += n_elements
        self.check_products()
        if degree is not None and degree > self.t:
            self.zeros(n_elements, degree)
        if self.has_surplus:
            self.traffic.step(pairwise(self.parties, WORD_BYTES))
        self.traffic.step([*pairwise(self.parties, n_elements * self.element_bytes), *beside])

    def open_noisy(self, n_elements: int) -> None:
        """Walk through `Computation.open_noisy`, to the coordinator."""
        self.check_products()
        self.traffic.pass_gate(self.parties)
        self.traffic.step(Sent(p, COORDINATOR, n_elements * self.element_bytes) for p in self.parties)

    def _coin(self) -> list[Sent]:
        """Return the messages of `ProductCheck.reveal`, after which there is no coin."""
        has_coin, self._has_coin = self._has_coin, False
        return pairwise(self.parties, N_COINS * self.element_bytes) if has_coin else []

    def _combine_dealt(self, n_elements: int, degree: int, beside: Sequence[Sent] = ()) -> None:
        """Walk through one sum over dealers; where there is surplus, each segment has a round of agreement."""
        n_segments = -(-n_elements // SEGMENT)
        self.traffic.step([*self.dealt_by_all(n_elements, degree), *beside])
        if not self.has_surplus:
            if self.receivers_of(1, degree):
                self.traffic.wait(self.parties, -(-n_segments // SEGMENTS_AHEAD) - 1)
            return
        self.traffic.step(pairwise(self.parties, n_segments * self.n_parties))
        self.traffic.wait(self.parties, n_segments - 1)

    def _double_sharings(self, n_elements: int, n_segments: int) -> None:
        """Walk through `reduce_with_double_sharings`: masks, to the kings, from the kings, the check.

        Kings open one segment after the other.
        """
        last = n_elements - (n_segments - 1) * SEGMENT
        times_of_size = ((SEGMENT, n_segments - 1), (last, 1))
        n_masks = sum(times * -(-size // (self.n_parties - self.t)) for size, times in times_of_size)
        parts = dict.fromkeys(self.parties, 0)
        for size, times in times_of_size:
            part = -(-size // self.n_parties)
            for king in self.parties:
                parts[king] += times * max(0, min(king * part, size) - (king - 1) * part)
        b = self.element_bytes
        self.traffic.step([*self.dealt_by_all(n_masks), *self.dealt_by_all(n_masks, 2 * self.t)])
        self.traffic.step(Sent(p, king, parts[king] * b) for king in self.parties for p in self.parties if p != king)
        self.traffic.step(
            Sent(king, r, parts[king] * b) for king in self.parties for r in self.receivers_of(king, self.t)
        )
        self.traffic.wait(self.parties, n_segments - 1)
        self.traffic.step(pairwise(self.parties, n_segments * N_MASK_CHECKS * b))
