"""What the beginning of an analysis sends, and the rows of its joint table, walked through (`mpc.traffic`)."""

from collections.abc import Callable, Mapping

from analyses.job.plan import Plan, matches_in_secret, protects_persons
from analyses.rows.joint_computation import ROWS_PER_BLOCK as ROWS_PER_BLOCK
from analyses.rows.meeting import matches_openly
from analyses.rows.secret_rows import terms_of
from mpc.protocol.session import COORDINATOR
from mpc.traffic.matching import match_revealed, match_secretly, n_slots_of, share_rows
from mpc.traffic.proofs import ProofTraffic
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.walk import Sent, Traffic, agree_on_key, confirm, greet

MATCHED_BYTES = 1


def traffic_of(plan: Plan) -> Traffic:
    """Return the empty traffic of a plan's members."""
    members = range(len(plan.schemas) + 1)
    return Traffic(members, plan.owners, plan.compute_members)


class JointTraffic(ProofTraffic):
    """The traffic of an analysis of a joint table.

    Args:
        plan: plan of the job.
        n_rows: rows of the joint table. Where rows are matched under shares, the number of slots takes its place.
    """

    def __init__(self, plan: Plan, n_rows: int) -> None:
        super().__init__(traffic_of(plan), plan.n_primes, plan.n_parties, plan.job.t)
        self._plan = plan
        self.proves_products = bool(plan.norm_bounds)
        self._terms = terms_of(plan) if matches_in_secret(plan.job) else None
        self.n_rows = n_rows if self._terms is None else n_slots_of(self._terms)
        self.members = range(1, len(plan.schemas) + 1)

    def meet(self, *, all_pairs: bool = False) -> None:
        """Walk through `analyses.rows.meeting.meet`."""
        plan, owners = self._plan, self._plan.owners
        reveals = matches_openly(plan)
        self.greet(all_pairs=all_pairs or reveals)
        if reveals:
            sizes = {owner: declared[1] for owner in owners if (declared := plan.schema_of(owner).rows) is not None}
            match_revealed(self.traffic, owners, sizes, strict=plan.job.is_malicious)
            others = [party for party in self.parties if party not in owners]
            self.traffic.step(Sent(owner, other, MATCHED_BYTES) for owner in owners for other in others)
        self.traffic.together(self._count_rows, self._compare_rows)

    def join(self) -> None:
        """Walk through `analyses.rows.joint_computation.joined`."""
        if self._terms is None:
            self.meet()
            self.count_rows_of_persons()
        else:
            self.greet(all_pairs=False)
            match_secretly(self, self._terms)

    def count_rows_of_persons(self) -> None:
        """Walk through `rows_that_count`."""
        if protects_persons(self._plan.job) and len(self._plan.owners) > 1:
            self.owners_key()

    def owners_key(self) -> None:
        """Walk through `owners_key`."""
        owners = self._plan.owners
        if max(owners) > self.n_parties:
            greet(self.traffic, owners, max(owners))
        agree_on_key(self.traffic, owners)

    def rows(
        self, widths: Mapping[int, int], n_rows: int, height: int = ROWS_PER_BLOCK, *, completes_input: bool = True
    ) -> None:
        """Walk through `JointComputation.rows`; arguments as of `ShareTraffic.rows`."""
        if self._plan.norm_bounds:
            self.proven_rows(self._plan.norm_bounds, n_rows)
        elif self._terms is None:
            super().rows(widths, n_rows, height, completes_input=completes_input)
        else:
            self._masked(widths, height, lambda n_block: None, completes_input=completes_input)

    def rows_in_step(
        self,
        widths: Mapping[int, int],
        n_rows: int,
        height: int,
        each: Callable[[int], None],
        *,
        completes_input: bool = True,
    ) -> None:
        """Walk through `JointComputation.rows_in_step`; arguments as of `ShareTraffic.rows_in_step`."""
        if self._plan.norm_bounds:
            self.proven_rows(self._plan.norm_bounds, n_rows)
            n_whole = max(0, -(-n_rows // height) - 1)
            for _ in range(n_whole):  # proofs of products come when enough have been made, not block by block
                each(height)
            each(n_rows - n_whole * height)
        elif self._terms is None:
            super().rows_in_step(widths, n_rows, height, each, completes_input=completes_input)
        else:
            self._masked(widths, height, each, completes_input=completes_input)

    def gram_of_rows(self, n_columns: int, n_entries: int) -> None:
        """Walk through what `JointComputation.gram_of_rows` does with rows that have been shared."""
        total = self.product_sum(n_entries)
        for start in range(0, self.n_rows if self.proves_products else 0, ROWS_PER_BLOCK):
            n_block = min(ROWS_PER_BLOCK, self.n_rows - start)
            total.add(n_block, n_block * n_columns)
        total.total()

    def row_sums(self, widths: Mapping[int, int]) -> None:
        """Walk through `JointComputation.row_sums`."""
        owners = self._plan.owners
        if self._terms is None:
            sizes = dict(widths)
            sizes[owners[0]] = 1 + sizes.get(owners[0], 0)
            self.inputs(sizes)
        elif widths:
            share_rows(self, self._terms, widths)
        if self.has_surplus:
            self.traffic.commit(owners)

    def ended(self) -> Traffic:
        """Return the traffic once all parties have ended their parts."""
        self.traffic.end()
        return self.traffic

    def to_coordinator(self, sizes: Mapping[int, int]) -> None:
        """Let members send so many bytes to the coordinator, each after its gate."""
        self.traffic.pass_gate(sizes)
        self.traffic.step(Sent(member, COORDINATOR, n_bytes) for member, n_bytes in sizes.items())

    def greet(self, *, all_pairs: bool = False) -> None:
        """Walk through `analyses.rows.meeting.greet`."""
        n_parties = len(self.members) if all_pairs else self.n_parties
        greet(self.traffic, self.members, n_parties)
        confirm(self.traffic, self.members, n_parties)

    def _count_rows(self) -> None:
        self.traffic.step(Sent(o, p, WORD_BYTES) for o in self._plan.owners for p in self.parties if p != o)

    def _compare_rows(self) -> None:
        plan, owners = self._plan, self._plan.owners
        outsiders = set(self.parties) - set(owners)
        is_known = any(plan.schema_of(owner).has_ids for owner in owners)
        is_known = is_known or plan.job.matching is not None or protects_persons(plan.job)
        if outsiders and len(owners) > 1 and is_known:
            greet(self.traffic, owners, max(owners))
            agree_on_key(self.traffic, owners)
        self.check_equal(self.members, owners)

    def _masked(
        self, widths: Mapping[int, int], height: int, each: Callable[[int], None], *, completes_input: bool
    ) -> None:
        """Walk through `SecretRows`: all rows by slot, then block by block times the bit of a match."""
        assert self._terms is not None
        share_rows(self, self._terms, widths)
        if completes_input and self.has_surplus:
            self.traffic.commit(widths)
        width = sum(widths.values())
        for start in range(0, self.n_rows, height):
            n_block = min(height, self.n_rows - start)
            self.reduce(n_block * width)
            each(n_block)
