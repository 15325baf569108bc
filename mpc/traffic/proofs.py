"""What proofs send: those of `mpc.proofs`, walked through."""

from collections.abc import Collection, Mapping, Sequence

from mpc.proofs.coin import DIGEST_BYTES, SEED_BYTES
from mpc.proofs.folding import REPETITIONS, Schedule
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound
from mpc.proofs.norm_proof import schedule_of
from mpc.proofs.products import MOST_PENDING
from mpc.proofs.proven_rows import ROWS_PER_BLOCK
from mpc.traffic.shares import ShareTraffic
from mpc.traffic.walk import Sent, pairwise


class ProofTraffic(ShareTraffic):
    """What operations on shares send, and proofs about them; arguments as of `ShareTraffic`.

    Attributes:
        proves_products: whether products are reduced as by `mpc.proofs.products.ProvenProducts`. No party may drop out.
    """

    proves_products = False
    _n_pending = 0

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

    def check_products(self) -> None:
        """Walk through `ProductProofs.verify`, or what `ShareTraffic` does."""
        super().check_products()
        if self._n_pending:
            schedule, self._n_pending = Schedule(self._n_pending), 0
            self.traffic.step(self.dealt_by_all(2 * REPETITIONS))
            self.prove([(schedule, range(1, 2 * self.t + 2))], totals=1)

    def toss(self, listeners: Collection[int] = ()) -> None:
        """Walk through `PublicCoin.toss`."""
        members = [*self.parties, *listeners]
        for n_bytes in (DIGEST_BYTES, SEED_BYTES + DIGEST_BYTES):
            self.traffic.step(Sent(p, m, n_bytes) for p in self.parties for m in members if m != p)

    def prove(
        self, pairs: Sequence[tuple[Schedule, Sequence[int]]], listeners: Collection[int] = (), totals: int = 0
    ) -> None:
        """Walk through `Proofs.check`.

        Args:
            pairs: schedule of each two vectors, and who proves something of them.
            listeners: provers without shares.
            totals: how many pairs have a sum of claims that counts.
        """
        self.toss(listeners)
        for fold in range(max(len(schedule.rows) for schedule, _ in pairs)):
            sizes: dict[int, int] = {}
            for schedule, provers in pairs:
                for prover in provers:
                    sizes[prover] = sizes.get(prover, 0) + _answers(schedule, fold)
            self.inputs({prover: size for prover, size in sizes.items() if size})
            self.toss(listeners)
        n_opened = REPETITIONS * sum(2 + len(provers) * (len(schedule.rows) + 1) for schedule, provers in pairs)
        for _, provers in pairs[:totals]:
            n_opened += REPETITIONS * (1 - len(provers))
        self.traffic.step(pairwise(self.parties, n_opened * self.element_bytes))

    def proven_rows(self, bounds: Mapping[int, NormBound], n_rows: int) -> None:
        """Walk through what `ProvenRows` deals and proves."""
        dealt = {owner: bound.dealt_width for owner, bound in bounds.items()}
        ShareTraffic.rows(self, dealt, n_rows, ROWS_PER_BLOCK, completes_input=False)
        listeners = [owner for owner in bounds if owner not in self.parties]
        self.inputs(dict.fromkeys(bounds, N_PROJECTIONS + 2 * REPETITIONS))
        self.toss(listeners)
        self.traffic.pass_gate(self.parties)
        self.traffic.step(pairwise(self.parties, len(bounds) * N_PROJECTIONS * self.element_bytes))
        self.prove([(schedule_of(bound, n_rows), [owner]) for owner, bound in bounds.items()], listeners)


def _answers(schedule: Schedule, fold: int) -> int:
    rows = schedule.rows
    return 0 if fold >= len(rows) else REPETITIONS * (rows[fold] + (fold == len(rows) - 1)) ** 2
