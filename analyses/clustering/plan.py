"""What a clustering fixes publicly: the number of local clusters, the noise of centres and counts, the field.

See `analyses.clustering.protocol`, which runs it.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from math import comb
from typing import Annotated, Any, Self

from pydantic import Field, SerializeAsAny, model_validator

from analyses.clustering.estimators.fm_sketch import SketchEstimator
from analyses.clustering.estimators.independent import IndependentEstimator
from analyses.clustering.estimators.ldp import LdpEstimator
from analyses.clustering.estimators.membership import MAX_CELLS, MembershipEstimator, MembershipGrid
from analyses.clustering.estimators.mpc import MpcEstimator
from analyses.clustering.estimators.pattern import PatternEstimator
from analyses.clustering.local_clustering import LocalClustering, Method
from analyses.clustering.weighted_clustering import MAX_POWER
from analyses.job.declared_rows import JointRowsParams, declared_rows, parameters_of
from analyses.job.job import Finite, Job, JobError, PrivacyTarget
from analyses.job.norm_bounds import Bounds
from analyses.job.plan import Plan, check_roster, check_schemas
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.calibrate import last_enough, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import VIEWS
from dp.mechanism.norm_proof import noise_delta
from dp.mechanism.skellam_parameters import SKELLAM_LADDER
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.walk import Traffic

ESTIMATORS: dict[str, type[MembershipEstimator]] = {
    "fm-sketch": SketchEstimator,
    "independent": IndependentEstimator,
    "ldp": LdpEstimator,
    "mpc": MpcEstimator,
    "pattern": PatternEstimator,
}
"""The membership estimators by the name that a job gives (`parameters.counting`)."""

MAX_CELLS_BY_RULE = 4096
MAX_LOCAL_BY_RULE = 16
ENOUGH_OF_MANY = 4
"""Local clusters up to which the rule fills the whole grid (`MAX_CELLS`): owners with 2 each lose a fifth more."""

MAX_LOCAL_OF_MANY = 6
DEVIATIONS_OF_A_PAIR = 4
"""Standard deviations of a count that the rule asks of a pair's even share where a model is fitted to all pairs.

Finer local clusters lose less within cells and more by noise. With 8 and 16 owners of loans (Lending Club) and of
letters, at epsilon .25 and 1, the k' of least loss was within one of this rule's, or the two losses were within .01 of
each other."""


class ClusteringParams(JointRowsParams):
    """Parameters of the analysis.

    Attributes:
        k: how many clusters, no more than the rows that some owner declares at least.
        max_rows: see `JointRowsParams`.
        expected_rows: public guess of it, for the choice of k' only; default: max_rows.
        p: power of distances whose sum is to be small: 2 for k-means, 1 for k-median, up to `MAX_POWER`.
        k_local: k', how many local clusters each owner makes; default: `local_clusters`.
        local_method: how, see `LocalClustering`.
        counting: name of the membership estimator, a key of `ESTIMATORS`.
        counting_options: options of the estimator; see its class.
        counting_share: the share of epsilon that the estimator may spend, at the same delta. The centres get the rest
            of the budget under composition.
    """

    k: Annotated[int, Field(ge=1, le=1000)]
    expected_rows: Annotated[int, Field(ge=1)] | None = None
    p: Annotated[int, Field(ge=1, le=MAX_POWER)] = 2
    k_local: Annotated[int, Field(ge=2, le=1000)] | None = None
    local_method: Method = "tree"
    counting: str = "mpc"
    counting_options: dict[str, Any] = Field(default_factory=dict)
    counting_share: Annotated[Finite, Field(gt=0, lt=1)] = 0.5

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.unit != "record":
            raise ValueError(
                "unit: clustering can protect records only, because the privacy cost of its steps for a person is not "
                "known"
            )
        if self.counting not in ESTIMATORS:
            raise ValueError(
                f"counting: there is no membership estimator {self.counting!r}; available: "
                f"{', '.join(sorted(ESTIMATORS))}"
            )
        if self.expected_rows is not None and self.expected_rows > self.max_rows:
            raise ValueError("expected_rows: must not be larger than max_rows")
        if self.p != 2 and self.local_method == "lloyd":
            raise ValueError(
                f"local_method: 'lloyd' minimises squared distances and needs p = 2; use 'tree' with p = {self.p}"
            )
        return self


class ClusteringPlan(Plan):
    """What all participants agree on before a clustering.

    Attributes:
        params: validated parameters.
        local: what each owner does, in the order of `owners`.
        counting: the membership estimator.
    """

    params: ClusteringParams
    local: tuple[LocalClustering, ...]
    counting: SerializeAsAny[MembershipEstimator]

    @property
    def k_local(self) -> int:
        """Number of local clusters of each owner."""
        return self.counting.grid.k_local

    def local_of(self, member: int) -> LocalClustering:
        """Return what an owner does."""
        return self.local[self.owners.index(member)]

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`: centres of the owners, then what the estimator sends."""
        joint = JointTraffic(self, n_rows)
        joint.meet()
        joint.traffic.commit(self.owners)
        sizes = {o: WORD_BYTES * one.k * len(one.block.columns) for o, one in zip(self.owners, self.local, strict=True)}
        joint.to_coordinator(sizes)
        self.counting.walk_through(joint)
        return joint.ended()

    @property
    def norm_bounds(self) -> Bounds:
        """See `Plan`: what the estimator's owners prove of memberships."""
        return self.counting.norm_bounds

    @property
    def proves_products(self) -> bool:
        """See `Plan`."""
        return bool(self.counting.norm_bounds)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The release of each owner's centres and those of the counting.

        A record has a part at every owner, so all of them count, also against a coalition: colluding parties know
        their own columns, but need not have any.
        """
        centres = (PlannedRelease(one.mechanism, (owner,)) for owner, one in zip(self.owners, self.local, strict=True))
        return (*centres, *self.counting.planned_releases())

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of centres and counts together in both views, and that of the counts alone."""
        delta = self.job.privacy.delta
        counting = self.counting.report(delta)
        found = privacy_report(
            mechanism=f"{self.k_local} local centres of each of {len(self.owners)} owners ({self.params.local_method}, "
            f"discrete Gaussian noise); {counting['mechanism']}",
            sensitivity="centres: a row is in one box per level, or nearest to one centre per iteration; counts: "
            + counting["sensitivity"],
            n_parties=self.n_parties,
            colluding=self.job.t,
            delta=delta,
            events={view: self.privacy_events(view) for view in VIEWS},
            noise={view: f"counts: {counting['views'][view]['noise']}" for view in VIEWS},
            parameters={"k_local": self.k_local, "counting": counting},
            unit=self.privacy_unit,
        )
        if not self.counting.hides_from_parties:
            found["views"]["coalition"] |= {"epsilon": None, "order": None, "order_at_edge": False}
        return found

    @property
    def withstands(self) -> int:
        """0 for an estimator that hides nothing from parties."""
        return self.job.t if self.counting.hides_from_parties else 0

    @property
    def privacy_unit(self) -> str:
        """What the mechanism protects; with sketches that need secret keys, from the coordinator alone."""
        return self.counting.unit


def plan(job: Job, schemas: Sequence[BlockSchema]) -> ClusteringPlan:
    """Fix everything public: k', the noise of counts and centres, the field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, ClusteringParams)
    rows = declared_rows(job, schemas)
    if params.k > rows.least and job.matching is None:  # of matched rows there may be none, whatever is declared
        raise JobError(
            f"parameters.k: {params.k} clusters are more than {rows.least}, the smallest number of rows that "
            f"{rows.least_of} declares"
        )
    if len(job.inputs) < 2:
        raise JobError("inputs: clustering needs columns of at least two parties")
    blocks = [schemas[job.members.index(i.party)] for i in job.inputs]
    try:
        counting = _estimator(job, params)
        local = _local(job, params, blocks, counting)
        n_primes = counting.n_primes
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows: {error}") from error
    return ClusteringPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        local=local,
        counting=counting,
    )


def _estimator(job: Job, params: ClusteringParams) -> MembershipEstimator:
    n_owners, n_members = len(job.inputs), len(job.members)
    budget = job.privacy
    target = PrivacyTarget(epsilon=budget.epsilon * params.counting_share, delta=budget.delta, view=budget.view)

    def calibrated(k_local: int) -> MembershipEstimator:
        grid = MembershipGrid(
            owners=tuple(job.members.index(i.party) + 1 for i in job.inputs),
            members=tuple(range(1, n_members + 1)),
            n_parties=len(job.compute_parties),
            colluding=job.t,
            k_local=k_local,
            max_rows=params.max_rows,
            is_proven=job.is_malicious,
        )
        return estimator.calibrate(grid, target, params.counting_options)

    estimator, least = ESTIMATORS[params.counting], least_local_clusters(params.k, n_owners)
    by_pairs = estimator.counts_pairs(params.counting_options)

    def is_held(k_local: int) -> bool:
        return (comb(n_owners, 2) * k_local**2 if by_pairs else k_local**n_owners) <= MAX_CELLS

    if params.k_local is None:
        if not is_held(least):
            raise JobError(
                f"parameters.k: {params.k} clusters are too many; they need a grid larger than {MAX_CELLS} cells"
            )
        return local_clusters(least, n_owners, params.expected_rows or params.max_rows, calibrated, by_pairs)
    if params.k_local < least:
        raise JobError(
            f"parameters.k: {params.k} clusters are more than the k_local^{n_owners} = {params.k_local**n_owners} "
            "cells of the grid"
        )
    if not is_held(params.k_local):
        of = "counts of pairs" if by_pairs else "cells of their grid"
        raise JobError(f"parameters.k_local: {n_owners} owners may have at most {MAX_CELLS} {of}")
    return calibrated(params.k_local)


def least_local_clusters(k: int, n_owners: int) -> int:
    """Return the least k' from 2 on with k'^S >= k."""
    return next(k_local for k_local in range(2, k + 2) if k_local**n_owners >= k)


def local_clusters(
    least: int,
    n_owners: int,
    n_rows: int,
    calibrated: Callable[[int], MembershipEstimator],
    by_pairs: bool = False,
) -> MembershipEstimator:
    """Return the estimator for the k' of the rule: the largest with sigma(k') <= n / k'^2, and at least `least`.

    More local clusters make a finer grid and smaller counts; a pair of clusters should still hold more rows than the
    deviation sigma of their count [VertClust23, 5.2]. The paper prints the smallest k' with 2 sigma >= n / k'^2, which
    gives 18 of the 30 numbers of its table; this rule gives 29.

    Where counts of pairs are enough, more than four owners need no grid that can be held, and k' follows from the noise
    alone: the largest up to 6 with 4 sigma(k') <= n / k'^2.

    The larger k', the fewer rows in a pair and the larger sigma k'^2, so the largest one is found by bisection.

    Args:
        least: k' is no smaller.
        n_owners: S.
        n_rows: n, public.
        calibrated: returns the estimator for a k'.
        by_pairs: see `MembershipEstimator.counts_pairs`.
    """
    of_many = by_pairs and n_owners > ENOUGH_OF_MANY
    seen = DEVIATIONS_OF_A_PAIR if of_many else 1
    found: dict[int, MembershipEstimator] = {}

    def is_coarse_enough(k_local: int) -> bool:
        try:
            tried = calibrated(k_local)
        except CalibrationError:  # only the coarsest grid must be possible
            return False
        found[k_local] = tried
        return seen * tried.count_deviation(n_rows) <= n_rows / k_local**2

    finer = range(least + 1, MAX_LOCAL_BY_RULE + 1)

    def fits(k_local: int) -> bool:
        if of_many:
            return k_local <= MAX_LOCAL_OF_MANY
        n_cells: int = k_local**n_owners
        return n_cells <= (MAX_CELLS if k_local <= ENOUGH_OF_MANY else MAX_CELLS_BY_RULE)

    finest = max(filter(fits, finer), default=least)
    chosen = last_enough(is_coarse_enough, lacking=finest + 1, enough=least)
    return found[chosen] if chosen in found else calibrated(chosen)


def _local(
    job: Job, params: ClusteringParams, blocks: Sequence[BlockSchema], counting: MembershipEstimator
) -> tuple[LocalClustering, ...]:
    """Return the local clustering of each owner, with the least noise that the remaining budget allows."""
    budget, of_counting = job.privacy, counting.events(job.privacy.view)
    delta = budget.delta - (noise_delta(len(job.compute_parties)) if counting.norm_bounds else 0.0)

    def with_noise(noise: int) -> tuple[LocalClustering, ...]:
        return tuple(
            LocalClustering(block=b, k=counting.grid.k_local, p=params.p, method=params.local_method, noise=noise)
            for b in blocks
        )

    def spends(noise: int) -> float:
        of_centres = chain.from_iterable(one.mechanism.events(budget.view) for one in with_noise(noise))
        return composed_epsilon((*of_centres, *of_counting), delta, near=budget.epsilon).epsilon

    return with_noise(least_noise(spends, SKELLAM_LADDER, epsilon=budget.epsilon, delta=delta))
