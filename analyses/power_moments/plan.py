"""The public plan of `analyses.power_moments.protocol`: parameters, what each method releases, and what that costs."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import Bounds, fitted, with_proofs
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.power_moments.column_sums import NoisyColumnSums
from analyses.power_moments.reports import DRAWS_OF_REPORTS, MomentReports
from analyses.power_moments.sensitivity import power_sensitivity, proven_sizes
from analyses.power_moments.sketch import MomentSketch
from analyses.rows.integer_column import IntegerColumn, integer_columns
from analyses.rows.slots import MAX_SLOTS
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.calibrate import Ladder, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import EVENT_UNIT, VIEWS, Protected
from dp.draw.noise import MAX_SCALE
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from dp.mechanism.shared_laplace import SharedLaplace, least_variance_noise, noise_fields, shared_noise
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam
from mpc.errors import FieldTooSmallError
from mpc.protocol.session import COORDINATOR
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.walk import Sent, Traffic

MAX_ORDER = 6

MAX_COUNT = 1 << 53
"""Below this value float64 represents every integer exactly, as the sensitivities assume."""


SCALE_UNIT = Fraction(1, 1 << 16)
"""Scales of discrete Laplace noise are multiples of this unit."""

Method = Literal["mpc", "laplace", "sketch", "threshold"]

BLOCK_ROWS = 1 << 16
"""Rows that method `mpc` multiplies at once."""


class MomentsParams(JointRowsParams):
    """Parameters of the analysis.

    Attributes:
        method: see `analyses.power_moments.protocol`.
        order: p, 1 .. MAX_ORDER; 1 with `laplace`, 2 with `sketch`.
        max_rows: see `JointRowsParams`.
        largest: party to the largest value of its column that counts; larger ones are clipped to it. Default: the
            column's upper bound. Noise grows with the p-th power of their sum.
        sketch_rows: s, with `sketch` only: the relative error is at least sqrt(2 / s).
        threshold: M, with `threshold` only: rows whose noisy sum is at least M / 2 are large.
    """

    method: Method = "mpc"
    order: Annotated[int, Field(ge=1, le=MAX_ORDER)] = 2
    max_rows: Annotated[int, Field(ge=2, le=1 << 100)]
    largest: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    sketch_rows: Annotated[int, Field(ge=8, le=1 << 16, multiple_of=8)] = 1024
    threshold: Annotated[int, Field(ge=2, le=1 << 20)] | None = None

    @model_validator(mode="after")
    def _fields_belong_to_the_method(self) -> Self:
        if self.order != {"laplace": 1, "sketch": 2}.get(self.method, self.order):
            raise ValueError(f"order: method {self.method!r} does not support order {self.order}")
        if (self.threshold is None) != (self.method != "threshold"):
            raise ValueError("threshold: must be given with method 'threshold' and with no other method")
        if self.unit == "person" and self.method == "threshold":
            raise ValueError("unit: method 'threshold' protects an event; its privacy cost for a person is not known")
        return self


class MomentsPlan(Plan):
    """What all participants agree on before the moment is taken.

    Attributes:
        params: validated parameters.
        noise: noise of the method: Skellam parameter of a party (`mpc`, where `mean_units` is 0); scale in SCALE_UNIT
            (`laplace`); variance per unit of a party's largest value (`sketch`); bias of bits in
            `dp.mechanism.bits.BIAS_UNIT` (`threshold`).
        mean_units: parameter of shares of discrete Laplace noise, with `mpc` (`dp.mechanism.shared_laplace`); else 0.
    """

    params: MomentsParams
    noise: int
    mean_units: int = 0

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan` and `analyses.power_moments.protocol`."""
        joint, p = JointTraffic(self, n_rows), self.params.order
        joint.join()
        match self.params.method:
            case "mpc":
                joint.shared_noise_of(1, self.noise_bound)
                n_layers, products = max(0, p - p // 2 - 1), joint.product_sum(1)

                def multiplied(n_block: int) -> None:
                    joint.reduce_in_turn(n_block, n_layers)
                    if p > 1:
                        products.add(n_block, 2 * n_block)

                joint.rows_in_step(dict.fromkeys(self.owners, 1), joint.n_rows, BLOCK_ROWS, multiplied)
                products.total()
                joint.open(1, self.opened_degree)
            case "laplace":
                joint.to_coordinator(dict.fromkeys(self.owners, WORD_BYTES))
            case "sketch":
                joint.owners_key()
                joint.to_coordinator(dict.fromkeys(self.owners, WORD_BYTES * self.params.sketch_rows))
            case _:
                self._walk_through_reports(joint)
        return joint.ended()

    def _walk_through_reports(self, joint: JointTraffic) -> None:
        """All slots are large here, or none is, whichever takes more bytes."""
        n_slots = self.params.max_rows
        joint.owners_key()
        joint.to_coordinator(dict.fromkeys(self.owners, WORD_BYTES * n_slots))
        joint.traffic.step(Sent(COORDINATOR, owner, -(-n_slots // 8)) for owner in self.owners)
        in_bits = [self.reports.report_bytes(j, n_slots) for j in range(len(self.owners))]
        second = [max(WORD_BYTES * n_slots, n_bytes) for n_bytes in in_bits]
        joint.to_coordinator(dict(zip(self.owners, second, strict=True)))
        joint.traffic.not_known.append("how many values are large: they are counted as if all or none were")

    @property
    def columns(self) -> tuple[IntegerColumn, ...]:
        """The owners' columns, in the order of the job's inputs."""
        return integer_columns(self.job, self.schemas)

    @property
    def largest(self) -> tuple[int, ...]:
        """Each owner's largest value; larger ones are clipped to it."""
        return _largest(self.job, self.params, self.columns)

    @cached_property
    def shared_noise(self) -> SharedSkellam | SharedLaplace:
        """The mechanism of method `mpc`."""
        return shared_noise(
            1,
            power_sensitivity(self.largest, self.params.order),
            self.n_parties,
            self.job.t,
            party_mu=self.noise,
            mean_units=self.mean_units,
            protected=self.protected,
        )

    @property
    def opened_degree(self) -> int:
        """Degree of the sharing that `mpc` opens: that of a product, or of an input and of products that are proven."""
        return self.job.t if self.params.order == 1 or self.job.is_malicious else 2 * self.job.t

    @property
    def noise_bound(self) -> int:
        """Bound on the noise of method `mpc`, which is exceeded only with the probability stated above."""
        return self.shared_noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    @property
    def opened_bound(self) -> int:
        """Bound on the absolute value of what method `mpc` opens."""
        return _moment_bound(self.largest, self.params) + self.noise_bound

    @cached_property
    def sums(self) -> NoisyColumnSums:
        """The release of `laplace`."""
        return NoisyColumnSums(self.largest, self.noise * SCALE_UNIT, self.protected)

    @cached_property
    def sketch(self) -> MomentSketch:
        """The release of `sketch`."""
        return MomentSketch(self.params.sketch_rows, self.largest, self.noise, self.protected)

    @property
    def least_deviation(self) -> float:
        """Standard deviation of the result where all values are 0, or a bound below it."""
        match self.params.method:
            case "mpc":
                return self.shared_noise.standard_deviation("coordinator")
            case "laplace":
                return self.sums.standard_deviation
            case "sketch":
                return sqrt(2 / self.params.sketch_rows) * sum(self.sketch.variances)
            case _:
                return self.reports.least_deviation(self.params.max_rows)

    @cached_property
    def reports(self) -> MomentReports:
        """The releases of `threshold`."""
        return _reports(self.params, self.largest, RandomizedBits(self.noise * BIAS_UNIT))

    @property
    def proves_products(self) -> bool:
        """See `Plan`."""
        return self.params.method == "mpc"

    @cached_property
    def norm_bounds(self) -> Bounds:
        """See `Plan`: no value is larger than its owner's largest one. It may be negative; see `proven_sizes`."""
        is_proven = self.params.method == "mpc"
        proven = proven_sizes(self.job, self.largest, self.params.max_rows) if is_proven else {}
        return fitted(proven, self.n_primes)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """What the method releases; with `threshold` each owner draws for values, large ones again, and bits."""
        match self.params.method:
            case "mpc":
                return (PlannedRelease(self.shared_noise, self.compute_members), *self.proof_releases)
            case "laplace":
                return (PlannedRelease(self.sums, self.owners),)
            case "sketch":
                return (PlannedRelease(self.sketch, self.owners),)
            case _:
                return (PlannedRelease(self.reports, self.owners, times=DRAWS_OF_REPORTS),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views."""
        delta, method = self.job.privacy.delta, self.params.method
        if method == "mpc":
            return self.shared_noise.report(f"moment of order {self.params.order}", delta)
        mechanism, sensitivity, noise = self._described()
        return privacy_report(
            mechanism=mechanism,
            sensitivity=sensitivity + self.protected.times,
            n_parties=self.n_parties,
            colluding=self.job.t,
            delta=delta,
            events={view: self.privacy_events(view) for view in VIEWS},
            noise=dict.fromkeys(VIEWS, noise),
            parameters={"method": method, "largest": list(self.largest)},
            unit=self.privacy_unit,
        )

    def _described(self) -> tuple[str, str, str]:
        total = sum(self.largest)
        match self.params.method:
            case "laplace":
                noise = f"discrete Laplace noise of scale {float(self.sums.scale):.4g} per party"
                return "the sum of each party's column plus noise", f"1-norm {total}", noise
            case "sketch":
                s, deviation = self.params.sketch_rows, sqrt(sum(self.sketch.variances))
                sensitivity = " + ".join(f"{s} * {most}^2 / {most * self.noise}" for most in self.largest)
                noise = f"discrete Gaussian noise of standard deviation {deviation:.4g} per entry of the sum"
                return f"a sketch of {s} entries of each party's column plus noise", sensitivity, noise
            case _:
                reports = self.reports
                noise = (
                    f"noise of scale {float(reports.scale):.4g} per value; "
                    f"bits true with probability {float(reports.bits.truthful):.6g}"
                )
                sensitivity = "an event changes one value of one party by 1; a replaced one, two values"
                return "each party's values plus noise, then large ones again, small ones in bits", sensitivity, noise

    @property
    def receivers(self) -> tuple[int, ...]:
        """The coordinator; with `threshold` also the owners, which learn the slots that are large."""
        return (COORDINATOR, *self.owners) if self.params.method == "threshold" else (COORDINATOR,)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the method protects."""
        return EVENT_UNIT if self.params.method == "threshold" else self.protected.name


def _largest(job: Job, params: MomentsParams, columns: Sequence[IntegerColumn]) -> tuple[int, ...]:
    return tuple(params.largest.get(i.party, c.upper) for i, c in zip(job.inputs, columns, strict=True))


def _moment_bound(largest: Sequence[int], params: MomentsParams) -> int:
    return int(params.max_rows * sum(largest) ** params.order)


def _reports(params: MomentsParams, largest: Sequence[int], bits: RandomizedBits) -> MomentReports:
    assert params.threshold is not None, "a threshold belongs to this method"
    kept = tuple(min(most, params.threshold) for most in largest)
    return MomentReports(params.order, params.threshold, kept, bits)


def _local_release(
    params: MomentsParams, largest: tuple[int, ...], noise: int, protected: Protected
) -> NoisyColumnSums | MomentSketch | MomentReports:
    """Return what the parties release themselves, with `MomentsPlan.noise`, for the methods other than `mpc`."""
    match params.method:
        case "laplace":
            return NoisyColumnSums(largest, noise * SCALE_UNIT, protected)
        case "sketch":
            return MomentSketch(params.sketch_rows, largest, noise, protected)
        case _:
            return _reports(params, largest, RandomizedBits(noise * BIAS_UNIT))


def plan(job: Job, schemas: Sequence[BlockSchema]) -> MomentsPlan:
    """Fix everything public: largest values, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, MomentsParams)
    columns = integer_columns(job, schemas)
    for brought, column in zip(job.inputs, columns, strict=True):
        if column.lower < 0:
            raise JobError(
                f"inputs: the bounds of {column.name} allow negative values; moments need counts, which are 0 or more"
            )
        if params.largest.get(brought.party, 1) > column.upper:
            raise JobError(
                f"parameters.largest.{brought.party}: must not be above the upper bound of the column, "
                f"{column.upper:.15g}"
            )
    if strangers := set(params.largest) - {i.party for i in job.inputs}:
        raise JobError(f"parameters.largest: {min(strangers)} does not bring a column")
    if params.method == "threshold" and params.max_rows > MAX_SLOTS:
        raise JobError(f"parameters.max_rows: method 'threshold' supports at most {MAX_SLOTS} rows")
    try:
        planned = _calibrated(job, tuple(schemas), params, _largest(job, params, columns))
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except FieldTooSmallError as error:
        raise JobError(f"parameters.max_rows, parameters.largest: {error}") from error
    if max(planned.largest) >= MAX_COUNT:
        raise JobError("parameters.largest: must be below 2^53, because larger counts are not exact in float64")
    return planned


def _calibrated(
    job: Job, schemas: tuple[BlockSchema, ...], params: MomentsParams, largest: tuple[int, ...]
) -> MomentsPlan:
    target, bound = job.privacy, _moment_bound(largest, params)
    epsilon, delta, view = target.epsilon, target.delta, target.view
    protected = protected_of(job, schemas)

    def spends(noise: int) -> float:
        events = _local_release(params, largest, noise, protected).events(view)
        return composed_epsilon(events, delta, near=epsilon).epsilon

    match params.method:
        case "mpc":

            def calibrated(epsilon: float) -> SharedSkellam | SharedLaplace:
                return least_variance_noise(
                    length=1,
                    sensitivities=power_sensitivity(largest, params.order),
                    n_parties=len(job.compute_parties),
                    colluding=job.t,
                    epsilon=epsilon,
                    delta=delta,
                    view=view,
                    protected=protected,
                )

            def bound_of(release: SharedSkellam | SharedLaplace) -> int:
                return bound + release.noise_tail_bound(LOG2_WRAP_PROBABILITY)

            proven = proven_sizes(job, largest, params.max_rows)
            n = len(job.compute_parties)
            release, n_primes = with_proofs(calibrated, bound_of, proven, job.privacy, protected, n)
            return MomentsPlan(
                job=job,
                schemas=schemas,
                n_primes=n_primes,
                params=params,
                noise=noise_fields(release)["party_mu"],
                mean_units=noise_fields(release)["mean_units"],
            )
        case "laplace":
            noise = least_noise(spends, Ladder(int(MAX_SCALE / SCALE_UNIT)), epsilon=epsilon, delta=delta)
        case "sketch":
            most = MAX_SCALE**2 // max(largest)
            if most < 1:
                raise CalibrationError(
                    f"a column of values up to {max(largest):.3g} needs more noise than the sampler can draw; use "
                    "coarser units, or clip the values (parameters.largest)"
                )
            noise = least_noise(spends, Ladder(most), epsilon=epsilon, delta=delta)
        case _:

            def epsilon_of(bits: RandomizedBits) -> float:
                return composed_epsilon(_reports(params, largest, bits).events(view), delta, near=epsilon).epsilon

            found = RandomizedBits.largest_bias(epsilon_of, epsilon=epsilon, delta=delta)
            noise = int(found.bias / BIAS_UNIT)
    if bound >= 1 << 52:
        raise FieldTooSmallError(
            "sums of this size are not exact in float64; use fewer rows (max_rows) or smaller values"
        )
    return MomentsPlan(job=job, schemas=schemas, n_primes=3, params=params, noise=noise)
