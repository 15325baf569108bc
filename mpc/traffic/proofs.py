"""What proofs send: those of `mpc.proofs`, walked through."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from mpc.arithmetic.field import ResidueField
from mpc.proofs.coin import DIGEST_BYTES, SEED_BYTES
from mpc.proofs.folding import REPETITIONS, Schedule
from mpc.proofs.noise_bound import NoiseBound
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound
from mpc.proofs.norm_proof import deals_combinations, schedules_of
from mpc.proofs.products import MOST_PENDING
from mpc.proofs.projections import N_PAIRS
from mpc.proofs.proven_bits import WIDTH, SignBound, field_of_signs, rows_of
from mpc.proofs.proven_rows import ROWS_PER_BLOCK
from mpc.proofs.proven_sums import MOST_KEPT
from mpc.proofs.summed_products import N_VECTORS
from mpc.proofs.summed_products import schedule_of as schedule_of_sum
from mpc.protocol.equality import N_ELEMENTS
from mpc.traffic.shares import WORD_BYTES, ShareTraffic, SumTraffic
from mpc.traffic.walk import Sent, Traffic, pairwise


@dataclass(frozen=True)
class Proof:
    """What is proven of two vectors.

    Attributes:
        schedule: how they are folded.
        provers: who proves something of them.
        repetitions: how often.
    """

    schedule: Schedule
    provers: Sequence[int]
    repetitions: int = REPETITIONS

    def answers(self, fold: int) -> int:
        """Return how many numbers a prover says in a fold."""
        rows = self.schedule.rows
        return 0 if fold >= len(rows) else self.repetitions * (rows[fold] + (fold == len(rows) - 1)) ** 2


class ProofTraffic(ShareTraffic):
    """What operations on shares send, and proofs about them; arguments as of `ShareTraffic`.

    Attributes:
        proves_products: whether products are reduced as by `mpc.proofs.products.ProvenProducts`. No party may drop out.
    """

    proves_products = False
    _n_pending = 0
    _n_prepared = 0
    _has_coin = False

    def __init__(self, traffic: Traffic, n_primes: int, n_parties: int, t: int) -> None:
        super().__init__(traffic, n_primes, n_parties, t)
        self._reduced_sums: list[int] = []

    @property
    def product_degree(self) -> int:
        """Degree of sums of products."""
        return self.t if self.proves_products else super().product_degree

    def product_sum(self, n_elements: int) -> SumTraffic:
        """Walk through `ProvenProducts.product_sum` or `gram_sum`, or what `ShareTraffic` does."""
        return ProvenSumTraffic(self, n_elements) if self.proves_products else super().product_sum(n_elements)

    def reduce_sum(self, n_elements: int, length: int) -> None:
        """Walk through `ProvenProducts.reduce_sum`: of so many entries, each of so many products."""
        self._combine_dealt(n_elements, self.t)
        self._reduced_sums.append(length)

    @property
    def has_surplus(self) -> bool:
        """Whether parties agree on who has dealt."""
        return super().has_surplus and not self.proves_products

    def reduce(self, n_elements: int, degree: int | None = None) -> None:
        """Walk through `ProvenProducts.multiply`, or what `ShareTraffic` does."""
        if not self.proves_products or not n_elements:
            return super().reduce(n_elements, degree)
        self.traffic.has_intermediate_products = True
        self._combine_dealt(n_elements, self.t)
        self._n_pending += n_elements
        if self._n_pending > MOST_PENDING:
            self.check_products()
        return None

    def check_equal(self, members: Sequence[int], compared: Sequence[int]) -> None:
        """Walk through `check_equal_proven`, or what `ShareTraffic` does."""
        n_elements = (len(compared) - 1) * N_ELEMENTS
        if not self.proves_products or not n_elements:
            return super().check_equal(members, compared)
        self.inputs(dict.fromkeys(compared, N_ELEMENTS))
        for _ in ("random elements", "products"):
            self._combine_dealt(n_elements, self.t)
        self._n_pending += n_elements
        has_coin, self._has_coin = self._has_coin, False  # the comparison is a computation of its own
        self.check_products()
        self._has_coin = has_coin
        size = n_elements * self.element_bytes
        self.traffic.step(Sent(p, m, size) for p in self.parties for m in members if m != p)
        return None

    def check_products(self) -> None:
        """Walk through `ProductProofs.verify`, or what `ShareTraffic` does."""
        super().check_products()
        lengths, self._reduced_sums = self._reduced_sums, []
        provers = range(1, 2 * self.t + 2)
        proofs = [Proof(schedule_of_sum(length), provers, 1) for length in lengths for _ in range(N_VECTORS)]
        if self._n_pending:
            proofs.insert(0, Proof(Schedule(self._n_pending), provers))
            self._n_pending = 0
        if not proofs:
            return
        self.traffic.step(self.dealt_by_all(2 * REPETITIONS * len(proofs)))
        if not self._has_coin:
            self.begin_coin()
            self._has_coin = True
        self.toss()
        self.prove(proofs, have_totals=True)

    def toss(self, listeners: Collection[int] = ()) -> None:
        """Walk through `PublicCoin.toss`."""
        self._coin_round(listeners, SEED_BYTES + 2 * DIGEST_BYTES)

    def begin_coin(self, listeners: Collection[int] = ()) -> None:
        """Walk through what comes before the first toss of a `PublicCoin`."""
        self._coin_round(listeners, DIGEST_BYTES)

    def _coin_round(self, listeners: Collection[int], n_bytes: int) -> None:
        members = [*self.parties, *listeners]
        self.traffic.step(Sent(p, m, n_bytes) for p in self.parties for m in members if m != p)

    def prove(
        self,
        proofs: Sequence["Proof"],
        listeners: Collection[int] = (),
        *,
        have_totals: bool = False,
        n_zeros: int = 0,
    ) -> None:
        """Walk through `Proofs.check`, with a coin.

        Args:
            proofs: about each two vectors.
            listeners: provers without shares.
            have_totals: whether a sum of claims counts in place of each.
            n_zeros: what is opened besides.
        """
        for fold in range(max(len(proof.schedule.rows) for proof in proofs)):
            sizes: dict[int, int] = {}
            for proof in proofs:
                for prover in proof.provers:
                    sizes[prover] = sizes.get(prover, 0) + proof.answers(fold)
            self.inputs({prover: size for prover, size in sizes.items() if size})
            self.toss(listeners)
        n_opened = n_zeros
        for proof in proofs:
            n_provers, n_folds = len(proof.provers), len(proof.schedule.rows)
            n_opened += proof.repetitions * (2 + n_provers * (n_folds + 1) + have_totals * (1 - n_provers))
        self.traffic.step(pairwise(self.parties, n_opened * self.element_bytes))

    def proven_rows(self, bounds: Mapping[int, NormBound], n_rows: int) -> None:
        """Walk through what `ProvenRows` deals and proves."""
        dealt = {owner: bound.dealt_width for owner, bound in bounds.items()}
        ShareTraffic.rows(self, dealt, n_rows, ROWS_PER_BLOCK, completes_input=False)
        self._prove_norms(bounds, n_rows)

    def noise_of(self, n_elements: int, largest: int) -> None:
        """Walk through `JointComputation.noise_of`: noise of which all parties' together is no larger than that."""
        if self.proves_products:
            self._proven_noise(n_elements, largest)
        else:
            self.noise(n_elements)

    def random_parts(self, n_bits: int, n_values: int, sizes: Sequence[int]) -> None:
        """Walk through `ProvenProducts._random_parts`, or what `ShareTraffic` does."""
        if not self.proves_products:
            return super().random_parts(n_bits, n_values, sizes)
        n_signs = n_bits + n_values * sum(sizes)
        if self._n_prepared < n_signs:
            self.prepare_bits(n_signs)
        self._n_prepared -= n_signs
        return None

    def prepare_bits(self, n_bits: int) -> None:
        """Walk through `ProvenProducts.prepare_bits`, or what `ShareTraffic` does."""
        if self.proves_products:
            self._proven_signs(n_bits)
            self._n_prepared = n_bits

    def shared_noise_of(self, n_elements: int, largest: int) -> None:
        """Walk through `JointComputation.shared_noise_of`; arguments as of `noise_of`."""
        if self.proves_products:
            self._proven_noise(n_elements, largest)
        else:
            self.shared_noise(n_elements)

    def _proven_noise(self, n_elements: int, largest: int) -> None:
        """Walk through `proven_noise`."""
        bound = NoiseBound.of_entries(n_elements, largest)
        wide = self._in(bound.field)
        wide.inputs(dict.fromkeys(self.parties, bound.dealt_width))
        wide._prove_norms(dict.fromkeys(self.parties, bound), 1, commits=False)

    def _proven_signs(self, n_signs: int) -> None:
        """Walk through `proven_signs`."""
        wide, dealers, proofs = self._in(field_of_signs()), range(1, self.t + 2), rows_of(n_signs)
        wide.inputs(dict.fromkeys(dealers, WIDTH * sum(proofs)))
        for n_rows in proofs:
            wide._prove_norms(dict.fromkeys(dealers, SignBound.of_rows(n_rows)), n_rows, commits=False)

    def _in(self, field: ResidueField) -> "ProofTraffic":
        """Return what adds to the same traffic in another field."""
        wide = copy(self)
        wide._field = field
        wide.element_bytes = WORD_BYTES * field.n_words
        return wide

    def _prove_norms(self, bounds: Mapping[int, NormBound], n_rows: int, *, commits: bool = True) -> None:
        """Walk through `prove_norms`."""
        listeners = [owner for owner in bounds if owner not in self.parties]
        schedules = {owner: schedules_of(bound, n_rows) for owner, bound in bounds.items()}
        self.inputs({owner: N_PROJECTIONS + 2 * REPETITIONS * len(found) for owner, found in schedules.items()})
        self.begin_coin(listeners)
        self.toss(listeners)
        if commits:
            self.traffic.pass_gate(self.parties)
        n_zeros = 0
        if deals_combinations(n_rows):
            self.inputs({owner: N_PROJECTIONS * bound.whole_width for owner, bound in bounds.items()})
            n_zeros = N_PAIRS * len(bounds)
        self.traffic.step(pairwise(self.parties, len(bounds) * N_PROJECTIONS * self.element_bytes))
        proofs = [Proof(one, [owner]) for owner, found in schedules.items() for one in found]
        self.prove(proofs, listeners, n_zeros=n_zeros)


class ProvenSumTraffic(SumTraffic):
    """What a `ProvenProductSum` or a `ProvenGramSum` sends; arguments as of `ProofTraffic.product_sum`."""

    def __init__(self, share: ProofTraffic, n_elements: int) -> None:
        self._share, self._n_elements = share, n_elements
        self._length = self._size = 0

    def add(self, length: int, size: int) -> None:
        """Walk through `add`; see `SumTraffic`."""
        self._length += length
        self._size += size
        if self._size > MOST_KEPT:
            self.total()
            self._share.check_products()

    def total(self) -> None:
        """Walk through `total` or `triangle`."""
        if self._length:
            self._share.reduce_sum(self._n_elements, self._length)
        self._length = self._size = 0
