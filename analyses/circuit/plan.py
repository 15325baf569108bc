"""What all participants of a circuit agree on: the program, the range of each step, noise, field."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.circuit.errors import errors_of
from analyses.circuit.exclusion import Case, exclusive_values, text_of
from analyses.circuit.functions import Range, size_of
from analyses.circuit.program import MAX_MASKED, Program, program_of, ranges_of
from analyses.circuit.proven import masked_delta, proven_bounds
from analyses.circuit.steps import check_room, n_masked, rows_at_once, walk_through
from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import Bounds, fitted, with_proofs
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of, protects_persons
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, Table
from analyses.rows.integer_column import nearest_places
from analyses.rows.own_rows import OwnRows
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.cost.views import View
from dp.mechanism.shared_laplace import SharedLaplace, least_variance_noise, noise_fields, shared_noise
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES
from mpc.errors import FieldTooSmallError, LocalFaultError, TooFewPartiesError
from mpc.traffic.walk import Traffic

ROWS_PER_BLOCK = 1 << 13
"""Most rows of which all steps are in memory at once."""

MAX_WEIGHT = 1 << 40


class CircuitParams(JointRowsParams):
    """Parameters of a circuit.

    Attributes:
        program: lines of the program (`analyses.circuit.program`), each one step.
    """

    program: Annotated[tuple[str, ...], Field(min_length=1)]


class CircuitPlan(Plan):
    """What all participants agree on before a program runs.

    Attributes:
        params: validated parameters.
        party_mu, mean_units: the noise parameter: one of both is 0 (`dp.mechanism.shared_laplace.shared_noise`).
    """

    params: CircuitParams
    party_mu: int = 0
    mean_units: int = 0

    @cached_property
    def program(self) -> Program:
        """The program."""
        return program_of(self.params.program)

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Range of each step."""
        return ranges_of(self.program, bounds_of(self.job, self.schemas), t=self.job.t)

    @cached_property
    def n_masked(self) -> int:
        """Masked openings per row."""
        return n_masked(self.program, self.ranges, self.job.t)

    @cached_property
    def roundings(self) -> tuple[float, ...]:
        """For each opening, how far what one row adds may be off its exact value: functions round."""
        errors = errors_of(self.program, self.ranges, t=self.job.t)
        return tuple(float(errors[str(step.operands[0])]) for step in self.program.opened)

    @cached_property
    def opened_ranges(self) -> tuple[Range, ...]:
        """For each opening, the range of what one row adds to it."""
        return tuple(self.ranges[str(step.operands[0])] for step in self.program.opened)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Public factor of each opening before noise is added: it makes one record move all of them about alike."""
        return weights_of(self.opened_ranges)

    @cached_property
    def exclusive(self) -> tuple[Case | None, ...]:
        """For each opening, which case it asks for: a row changes those of one case only."""
        return exclusive_values(self.program, self.ranges)

    @cached_property
    def rows_at_once(self) -> int:
        """Rows of which all steps are in memory at once."""
        if not self.norm_bounds:
            return ROWS_PER_BLOCK
        return rows_at_once(self.program, self.ranges, ResidueField(self.n_primes), self.job.t, ROWS_PER_BLOCK)

    @property
    def proves_products(self) -> bool:
        """See `Plan`."""
        return True

    @cached_property
    def norm_bounds(self) -> Bounds:
        """See `Plan`: each value of a row lies in the bounds of its column, and whether it counts is 0 or 1."""
        return fitted(proven_bounds(self.job, self.schemas, self.params.max_rows), self.n_primes)

    @property
    def widths(self) -> dict[int, int]:
        """Owner to the number of integers that it brings per row; the first one says besides whether the row counts."""
        first = self.owners[0] if protects_persons(self.job) else 0
        return {owner: len(self.schema_of(owner).columns) + (owner == first) for owner in self.owners}

    @cached_property
    def noise(self) -> SharedSkellam | SharedLaplace:
        """The one release: noise on all openings."""
        return shared_noise(
            len(self.weights),
            sensitivities(self.opened_ranges, self.weights, self.exclusive),
            self.n_parties,
            self.job.t,
            party_mu=self.party_mu,
            mean_units=self.mean_units,
            protected=self.protected,
        )

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release, to which every compute party adds its noise, and what proofs show."""
        return (PlannedRelease(self.noise, self.compute_members), *self.proof_releases)

    @property
    def delta_of_releases(self) -> float:
        """See `Plan`: masked openings take the rest."""
        return super().delta_of_releases - masked_delta(self.job, self.n_masked, self.protected)

    @property
    def standard_errors(self) -> list[float]:
        """Standard error of each opening."""
        return [self.noise.standard_deviation("coordinator") / weight for weight in self.weights]

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views, and for each opening its range, weight and error."""
        what = f"the {len(self.weights)} sums of program {self.program.digest}"
        report = self.noise.report(what, self.delta_of_releases) | {"delta": self.job.privacy.delta}
        opened = zip(
            self.program.opened,
            self.opened_ranges,
            self.weights,
            self.standard_errors,
            self.exclusive,
            self.roundings,
            strict=True,
        )
        return report | {
            "program": {
                "digest": self.program.digest,
                "openings": [
                    {"name": s.name, "line": s.line, "row_range": list(r), "weight": w, "standard_error": e}
                    | ({} if only is None else {"only_where": text_of(only)})
                    | ({"rounding_per_row": rounding} if rounding else {})
                    for s, r, w, e, only, rounding in opened
                ],
                "masked_openings_per_row": self.n_masked,
                "delta_of_masked_openings": masked_delta(self.job, self.n_masked, self.protected),
            }
        }

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects: what the job asked for."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`, and `analyses.circuit.protocol.party`."""
        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise_of(len(self.weights), self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
        joint.rows_in_step(
            self.widths,
            joint.n_rows,
            self.rows_at_once,
            lambda n: walk_through(joint, self.program, self.ranges, n, counts=protects_persons(self.job)),
        )
        joint.open_noisy(len(self.weights))
        return joint.ended()


class ColumnRows(OwnRows):
    """My rows as integers: each value becomes the nearest integer within the bounds of its column.

    Args:
        plan: the plan of the job.
        member: my number.
        table: my rows.
        counting: which of them count, shape (rows,); None where all do.
    """

    def __init__(self, plan: CircuitPlan, member: int, table: Table, counting: NDArray[np.bool_] | None) -> None:
        self._columns = table.schema.columns
        self._width = plan.widths[member]
        super().__init__(table, counting, [column.name for column in self._columns])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (self._width,)

    def __call__(self, rows: slice) -> NDArray[np.int64]:
        """See `OwnRows`. Rows that do not count hold what is nearest 0 within the bounds.

        Masks are as long as ranges ask for, so no row, counted or not, may leave them.
        """
        integers, n_columns = super().__call__(rows), len(self._columns)
        lower = np.array([int(column.lower) for column in self._columns])
        upper = np.array([int(column.upper) for column in self._columns])
        integers[:, :n_columns] = np.clip(integers[:, :n_columns], lower, upper)
        return integers

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """See `OwnRows.quantise`; what is counted is values that were no integers within the bounds."""
        integers = np.ones((len(values), self._width), dtype=np.int64)  # rows that do not count become 0 altogether
        mapped = np.zeros(len(self._columns), dtype=np.int64)
        for place, column in enumerate(self._columns):
            lower = int(column.lower)
            found, mapped[place] = nearest_places(values[:, place], lower, int(column.upper))
            integers[:, place] = found + lower
        return integers, mapped, 0


class ColumnPlaces(ColumnRows):
    """My rows as they are proven: how far each value lies above the lower bound of its column."""

    def __call__(self, rows: slice) -> NDArray[np.int64]:
        """See `ColumnRows`."""
        integers = super().__call__(rows)
        integers[:, : len(self._columns)] -= np.array([int(column.lower) for column in self._columns])
        return integers


def sensitivities(
    ranges: Sequence[Range], weights: Sequence[int], exclusive: Sequence[Case | None]
) -> Mapping[View, VectorSensitivity]:
    """Return how far one record moves the weighted sums.

    Row i adds w_k f_k(i) to opening k, where f_k(i) depends on row i alone and lies in [low_k, high_k]
    (`analyses.circuit.program.ranges_of`): values are mapped into the bounds of their columns before anything else.
    Functions round by masks besides, which are drawn anew for each row, whatever it holds: with all masks as they are,
    other rows add what they added, and row i something in that range.

        a record more or less     moves opening k by w_k f_k:            at most w_k max(|low_k|, |high_k|);
        a record replaced         by w_k (f_k - f'_k):                   at most w_k (high_k - low_k).

    Where rows are matched a record replaced at one owner may lose its match, or find one, so the larger of both counts
    for the coalition. A row of a person beyond those that count adds 0: what is summed is multiplied by a shared 0. The
    1-norm is the sum of these, the squared 2-norm the sum of their squares.

    Some openings get something of a row only in a case, where the same steps have certain values
    (`analyses.circuit.exclusion`); a row is in one case at most. One that is more or less moves the openings of its own
    case, so the case with the largest sum counts, and the others do not. A row that is replaced by one of the same case
    moves those by the second line above; by one of another case, those of both by the first: it leaves one and enters
    the other. The largest sum of these counts.
    """
    more = [w * size_of(of) for w, of in zip(weights, ranges, strict=True)]
    replaced = [max(m, w * (high - low)) for m, w, (low, high) in zip(more, weights, ranges, strict=True)]

    def of(moves: Sequence[int], leaving: Sequence[int]) -> VectorSensitivity:
        return VectorSensitivity(*(_largest(moves, leaving, exclusive, power) for power in (2, 1)))

    return {"coordinator": of(more, [0] * len(more)), "coalition": of(replaced, more)}


def _largest(moves: Sequence[int], leaving: Sequence[int], exclusive: Sequence[Case | None], power: int) -> int:
    """Return the largest sum of powers of what moves: within one case, or of what leaves one and enters another."""
    within, across = Counter[Case](), Counter[Case]()
    always = 0
    for move, left, value in zip(moves, leaving, exclusive, strict=True):
        if value is None:
            always += move**power
        else:
            within[value] += move**power
            across[value] += left**power
    two = sum(sorted(across.values())[-2:])
    return always + max([*within.values(), two])


def weights_of(ranges: Sequence[Range]) -> tuple[int, ...]:
    """Return for each range a factor that brings its size near the largest one's; noise is alike on all."""
    sizes = [size_of(of) for of in ranges]
    return tuple(min(MAX_WEIGHT, max(1, max(sizes) // size)) for size in sizes)


def bounds_of(job: Job, schemas: Sequence[BlockSchema]) -> dict[str, Range]:
    """Return the bounds of all columns that the job brings.

    Raises:
        JobError: bounds are no integers, or have more than 52 bits.
    """
    found = {}
    for brought in job.inputs:
        for column in schemas[job.members.index(brought.party)].columns:
            name = f"{brought.party}.{column.name}"
            if column.lower != round(column.lower) or column.upper != round(column.upper):
                raise JobError(
                    f"inputs: the bounds {column.lower:g}..{column.upper:g} of {name} are not integers, but a circuit "
                    "computes with integers"
                )
            if max(abs(column.lower), abs(column.upper)) >= 1 << 52:
                raise JobError(f"inputs: the bounds of {name} have more than 52 bits")
            found[name] = (int(column.lower), int(column.upper))
    return found


def plan(job: Job, schemas: Sequence[BlockSchema]) -> CircuitPlan:
    """Fix everything public: ranges, noise, field.

    Raises:
        JobError: names the field of the job, or the line of the program, that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, CircuitParams)
    program = program_of(params.program)
    bounds = bounds_of(job, schemas)
    ranges = ranges_of(program, bounds, t=job.t)
    unused = sorted(set(bounds) - set(program.columns))
    if unused:
        raise JobError(f"inputs: the program does not use column {unused[0]}; leave it out of `columns`")
    opened = [ranges[str(step.operands[0])] for step in program.opened]
    for step, of in zip(program.opened, opened, strict=True):
        if of == (0, 0):
            raise JobError(f"parameters.program: line {step.number}, {step.line!r}: it is always 0")
    weights = weights_of(opened)
    errors_of(program, ranges, t=job.t)
    try:
        masked = n_masked(program, ranges, job.t)
    except (FieldTooSmallError, LocalFaultError) as error:
        raise JobError(f"parameters.program: {error}") from error
    if masked > MAX_MASKED:
        raise JobError(f"parameters.program: {masked} values per row are opened under masks, more than {MAX_MASKED}")
    target, protected = job.privacy, protected_of(job, tuple(schemas))
    besides = masked_delta(job, masked, protected)
    if besides >= target.delta:
        raise JobError(
            f"privacy.delta: {target.delta:g} is not more than the {besides:.2g} that comparisons take of it"
        )
    moves = sensitivities(opened, weights, exclusive_values(program, ranges))
    largest = max(w * size_of(of) for w, of in zip(weights, opened, strict=True))
    beside = target.model_copy(update={"delta": target.delta - besides})
    proven = proven_bounds(job, schemas, params.max_rows)

    def calibrated(epsilon: float) -> SharedSkellam | SharedLaplace:
        return least_variance_noise(
            length=len(weights),
            sensitivities=moves,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            view=target.view,
            epsilon=epsilon,
            delta=beside.delta,
            protected=protected,
        )

    def bound_of(noise: SharedSkellam | SharedLaplace) -> int:
        total = params.max_rows * largest + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        return ResidueField(_n_primes(total, program, ranges, job.t)).half_order  # that of the field which is needed

    try:
        n_noises = len(job.compute_parties)
        noise, n_primes = with_proofs(calibrated, bound_of, proven, beside, protected, n_noises)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.program: {error}") from error
    return CircuitPlan(job=job, schemas=tuple(schemas), n_primes=n_primes, params=params, **noise_fields(noise))


def _n_primes(total: int, program: Program, ranges: Mapping[str, Range], t: int) -> int:
    """Return the primes of the smallest field that holds the sums, every step, and every mask."""
    size = max(map(size_of, ranges.values()))
    for n_primes in range(len(ResidueField.for_bound(max(total, size)).primes), len(PRIMES) + 1):
        try:
            check_room(program, ranges, ResidueField(n_primes), t)
        except FieldTooSmallError:
            if n_primes == len(PRIMES):
                raise
        else:
            return n_primes
    raise FieldTooSmallError("no field is large enough")
