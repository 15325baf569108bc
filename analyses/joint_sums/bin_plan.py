"""What all participants of a count of people over tables of different people agree on: bins, noise, field."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from analyses.job.job import Job, JobError, parameters_error
from analyses.job.plan import Plan, check_roster
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, check_matching
from analyses.joint_sums.parameters import JointSumParams
from analyses.pattern_count.products import walk_through_patterns
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.views import UNIT, View
from dp.mechanism.shared_laplace import SharedLaplace, least_variance_noise, noise_fields, shared_noise
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError
from mpc.traffic.walk import Traffic

LEAST_BINS, MOST_BINS = 1 << 10, 1 << 26

BINS_PER_ROW = 2
"""Bins for each row that the tables may have, by default at least so many."""

MAX_OWNERS = 6
"""Largest number of owners: 2^6 patterns of who has somebody in a bin."""

BIN_SENSITIVITY: Mapping[View, VectorSensitivity] = {
    "coordinator": VectorSensitivity(2, 2),
    "coalition": VectorSensitivity(6, 4),
}
"""How far one person moves the numbers of bins with each pattern, all tables of the job together.

A person has one id, whose hash is one bin, the same at all owners; at an owner a bin is occupied or not, whoever and
how many are in it. So a person that is removed from all tables can only take owners from the pattern of one bin: two
numbers move by 1, or none does. For one replaced, remove the one, which moves a bin from a pattern p to a smaller one
q, and add the other, which moves a bin from r to a larger one s. The 1-norm is at most 4. Were p = r and q = s, then q
would be both smaller and larger than p; so at most one of both holds, one number moves by 2 and two by 1, and the
square is at most 6. The number of bins is public, and follows from declarations."""


class BinPlan(Plan):
    """What all participants agree on before bins are counted.

    Attributes:
        params: validated parameters, with the number of bins.
        party_mu, mean_units: the noise parameter: one of both is 0 (`dp.mechanism.shared_laplace.shared_noise`).
    """

    params: JointSumParams
    party_mu: int = 0
    mean_units: int = 0

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        assert isinstance(self.params.bins, int)
        return self.params.bins

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table of patterns: at each owner 0 for an occupied bin, and 1 for an empty one."""
        return (2,) * len(self.owners)

    @cached_property
    def noise(self) -> SharedSkellam | SharedLaplace:
        """The mechanism."""
        return shared_noise(
            1 << len(self.owners),
            BIN_SENSITIVITY,
            self.n_parties,
            self.job.t,
            party_mu=self.party_mu,
            mean_units=self.mean_units,
        )

    @property
    def opened_bound(self) -> int:
        """Bound on the absolute value of what is opened."""
        return self.n_bins + self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`, and `analyses.joint_sums.bin_counts.count_bins`: it does not depend on the rows."""
        joint = JointTraffic(self, self.n_bins)
        joint.greet()
        joint.shared_noise_of(1 << len(self.owners), self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
        walk_through_patterns(joint, self.owners, self.shape)
        joint.open(1 << len(self.owners), joint.product_degree)
        return joint.ended()

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release; every compute party adds its noise."""
        return (PlannedRelease(self.noise, self.compute_members),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views."""
        return self.noise.report("numbers of bins in which each set of owners has somebody", self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects: all that the tables hold under one id."""
        return UNIT


def plan_bins(job: Job, schemas: Sequence[BlockSchema]) -> BinPlan:
    """Fix everything public: the number of bins, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")
    if job.matching is not None:
        raise JobError("parameters.bins: people are counted over tables of different people; leave `matching` away")
    owners = [schemas[job.members.index(brought.party)] for brought in job.inputs]
    check_matching(job, "secret", owners)
    if len(owners) > MAX_OWNERS:
        raise JobError(f"inputs: people are counted over at most {MAX_OWNERS} owners, not {len(owners)}")
    most = sum(owner.rows[1] for owner in owners if owner.rows is not None)
    bins: Any = job.parameters.get("bins")
    if bins == "auto":
        bins = max(LEAST_BINS, 1 << (BINS_PER_ROW * most - 1).bit_length())
    try:
        params = JointSumParams.model_validate({"max_rows": most, **job.parameters, "bins": bins})
    except ValidationError as error:
        raise parameters_error(error, JointSumParams) from None
    if params.unit != "record":
        raise JobError("parameters.unit: bins protect all that tables hold under one id, whatever the unit")
    if bins & (bins - 1) or not max(LEAST_BINS, most) <= bins <= MOST_BINS:
        raise JobError(
            f"parameters.bins: must be a power of two from {LEAST_BINS} to {MOST_BINS}, and no less than the {most} "
            f"rows that the tables may have, not {bins}"
        )
    target = job.privacy
    try:
        noise = least_variance_noise(
            length=1 << len(owners),
            sensitivities=BIN_SENSITIVITY,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            view=target.view,
            epsilon=target.epsilon,
            delta=target.delta,
        )
        field = ResidueField.for_bound(bins + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except FieldTooSmallError as error:
        raise JobError(f"parameters.bins: {error}") from error
    n_primes = len(field.primes)
    return BinPlan(job=job, schemas=tuple(schemas), n_primes=n_primes, params=params, **noise_fields(noise))
