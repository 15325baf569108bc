"""Sums, weighted means and histograms over many members, as masked sums: the question and its answer.

Without a privacy target the sum is exact, and not private by itself: whoever knows all contributions but one knows that
one. With a target, members add noise that keeps exactly the intended variance when members drop out
(`analyses.sums.noise`). `analyses.sums.records` defines what members contribute.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from analyses.job.job import Finite, JobError, Name, PrivacyTarget, explain, tree_of_toml
from analyses.rows.grid import Grid
from analyses.sums.noise import SumNoise, SumSensitivity
from analyses.sums.round import (
    HISTOGRAM,
    MEAN,
    SUM,
    TREE,
    SumFields,
    calibrated,
    configure,
    members_of,
    participation,
    ring_for,
)
from analyses.sums.tree_counts import TreeCounts
from analyses.sums.vector_bound import VectorBound
from dp.cost.report import no_guarantee_report
from dp.cost.views import ADJACENCY, VECTOR_UNIT, View
from dp.local_mechanism.odds import MAX_INPUTS
from mpc.errors import ProtocolError
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, RoundConfig, Topology
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.transcript import RoundId

Analysis = Literal["secure-sum", "secure-mean", "secure-histogram", "secure-distribution"]

MAX_LENGTH = 1 << 26
MAX_WEIGHT = 1 << 52
MAX_VALUES = 1 << 26
"""The longest vector, the largest weight and the most values that a question or a declaration may state."""


class SumParams(SumFields):
    """The question of an analyst. All members read the same text, which is bound into every key of the round.

    Attributes:
        analysis: `secure-sum`: of the members' vectors. `secure-mean`: the same, each times its member's weight, over
            the sum of the weights. `secure-histogram`: how many of the members' numbers lie in each bin.
            `secure-distribution`: how many of the members' numbers, one each, lie at each node of a tree over buckets
            (`analyses.sums.tree_counts`); `questions.cohorts` makes a distribution of it.
        record: the name under which members keep what is summed.
        length: entries of each vector, as members declare it for the record; for a histogram it follows from the edges.
        largest: no entry is larger in size: larger ones are clipped. For a histogram, so many numbers of one member
            count in each bin at most.
        largest_norm: for sums, the largest Euclidean norm of a vector: longer ones are shortened, and the noise covers
            no more. Absent: only `largest` bounds it.
        values: for histograms, so many numbers of one member count in all at most, and at least `largest`: the first
            ones of its record that lie in a bin, others are left out. Absent: only `largest` bounds them, and a noisy
            answer over many bins has far more noise.
        units: integer units per 1.0; entries are rounded toward zero to whole units. 1 for integers.
        edges: edges of the bins of a histogram, ascending; the last bin includes its upper edge.
        range: range of a distribution; a number outside counts as its nearer end.
        buckets: number of parts of equal length into which the range of a distribution is divided.
        largest_weight: largest weight of a member, for means; at least what members declare for the record.
        members: names of those to be asked; empty means all that the coordinator knows.
        colluding: members that may collude with the coordinator without learning more than the sum. By default devices
            refuse fewer than a tenth of the members.
        vanishing: number of members that may drop out, for more than 128 members. With up to 128 it follows from
            `colluding`.
        stage_s: deadline of each of the five stages.
        grace_s: once enough members have answered a stage, it is over when for so long nobody else has. Default: a
            third of `stage_s`.
        attempts: number of rounds, each with fresh keys, that are tried if too few members answer.
        privacy: the noise that the answer must have; None for an exact answer.
    """

    kind: ClassVar[str] = "sum"

    analysis: Analysis
    record: Name
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = 1
    largest: Annotated[Finite, Field(gt=0)]
    largest_norm: Annotated[Finite, Field(gt=0)] | None = None
    values: Annotated[int, Field(ge=1, le=MAX_VALUES)] | None = None
    units: Annotated[int, Field(ge=1, le=1 << 52)] = 1
    range: tuple[Finite, Finite] | None = None
    buckets: Annotated[int, Field(ge=2, le=MAX_INPUTS)] | None = None
    largest_weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)] | None = None
    members: tuple[Name, ...] = ()
    colluding: Annotated[int, Field(ge=0)] = 0
    vanishing: Annotated[int, Field(ge=0)] = 0
    stage_s: Annotated[Finite, Field(gt=0, le=3600)] = 30.0
    grace_s: Annotated[Finite, Field(ge=0, le=3600)] | None = None
    privacy: PrivacyTarget | None = None

    @model_validator(mode="after")
    def _fields_belong_to_the_analysis(self) -> Self:
        if (self.analysis == MEAN) != (self.largest_weight is not None):
            raise ValueError("largest_weight: must be given for a mean and for no other analysis")
        if (self.analysis == TREE) != (self.range is not None) or (self.range is None) != (self.buckets is None):
            raise ValueError("range, buckets: both must be given for a distribution and for no other analysis")
        if self.analysis == TREE and (self.length != 1 or self.units != 1 or self.largest != 1):
            raise ValueError("length, units, largest: must be 1 for a distribution, which counts one number per member")
        if self.range is not None and self.buckets is not None:
            Grid(*self.range, self.buckets)
        if self.largest_norm is not None and (self.analysis != SUM or self.largest_norm * self.units < 1):
            raise ValueError("largest_norm: belongs to sums, and must be one unit at least")
        if self.analysis != HISTOGRAM:
            if self.edges:
                raise ValueError("edges: must be given for a histogram only")
            if self.values is not None:
                raise ValueError("values: only a histogram counts values")
            return self
        self.check_edges()
        if self.length != 1 or self.units != 1 or self.largest != int(self.largest):
            raise ValueError(
                "length, units, largest: must not be given for a histogram, which counts numbers in the bins between "
                "its edges"
            )
        if self.values is not None and self.largest > self.values:
            raise ValueError("largest, values: no more numbers of a member can count in one bin than count in all")
        return self

    def canonical_json(self) -> str:
        """Return the one JSON text. What later versions added is left out where it is not given, as earlier ones do."""
        tree = self.model_dump(mode="json", by_alias=True)
        for name in ("largest_norm", "values", "range", "buckets", "grace_s"):
            if tree[name] is None:
                del tree[name]
        return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a question's file.

        Raises:
            JobError: not TOML, or as `from_json`.
        """
        try:
            return cls.model_validate(tree_of_toml(text))
        except ValidationError as error:
            raise JobError(explain(error, cls)) from None

    @property
    def encoding(self) -> VectorEncoding:
        """The encoding of members' vectors as integers.

        All elements of a noisy sum have the same noise, so a weight of 1 has as many units in it as the largest entry.
        """
        if self.tree is not None:
            return self.tree.encoding
        length = len(self.edges) - 1 if self.edges else self.length
        plain = VectorEncoding(
            length, self.largest, self.units, norm_clip=self.largest_norm, largest_weight=self.largest_weight
        )
        if self.privacy is None or self.largest_weight is None:
            return plain
        return replace(plain, weight_units=max(1, plain.largest_entry))

    @property
    def tree(self) -> TreeCounts | None:
        """What is counted for a distribution; None for other analyses."""
        return None if self.buckets is None else TreeCounts(self.buckets, 1)

    @property
    def grid(self) -> Grid:
        """The buckets of a distribution."""
        assert self.range is not None
        assert self.buckets is not None
        return Grid(*self.range, self.buckets)

    @property
    def sensitivities(self) -> dict[View, SumSensitivity]:
        """The sensitivity of the integer sum to one member, in both views.

        A member's weight travels as one more entry of u units: w (x, u) with 0 <= w <= W has a squared norm of at most
        W^2 (B + u^2). A member whose record cannot be used contributes zeros, which are within every bound. Who took
        part is public, and does not depend on any record (`analyses.sums.records`), so what is protected is the vector
        of one that did: against a vector of zeros, or, in the coalition's view, against any other.

        With `values` K, `analyses.sums.records.contribution` counts at most K numbers of a member, in integers and
        whatever the record holds, at most L = `largest` of them in one bin. So the vector h of a member has entries
        0 .. L and |h|_1 <= K. Two such vectors h and h' have |h - h'|_1 <= 2 K and, as <h, h'> >= 0,
        |h - h'|^2 <= |h|^2 + |h'|^2 <= 2 max |h|^2 <= 2 K^2: see `VectorBound.of_counts` and `VectorBound.sensitivity`.
        Without `values` all n bins may be full, and the noise covers |h - h'|^2 <= 4 n L^2.

        With `largest_norm` c the encoding shortens a member's vector x, in integers of u units, until |x|^2 <= (c u)^2,
        whatever the record holds (`VectorEncoding.squared_norm_bound`); so |x - x'|^2 <= 4 (c u)^2.

        For a distribution one number of a member counts, at one node of each level: see `analyses.sums.tree_counts`.
        """
        if self.tree is not None:
            return self.tree.sensitivities(VECTOR_UNIT)
        if self.values is not None:
            counts = VectorBound.of_counts(self.encoding.length, int(self.largest), self.values)
            return {view: counts.sensitivity(view, VECTOR_UNIT) for view in ADJACENCY}
        squared, n_elements = self.encoding.squared_norm_bound, self.encoding.n_elements
        if self.largest_weight is not None:
            squared = self.largest_weight**2 * (squared + self.encoding.weight_units**2)
        return {
            view: SumSensitivity.of_member(squared, n_elements, adjacency, VECTOR_UNIT)
            for view, adjacency in ADJACENCY.items()
        }

    def noise(self, topology: Topology) -> SumNoise | None:
        """Return the noise that meets the target, or None where there is no target.

        Raises:
            JobError: no noise on offer meets it.
        """
        return None if self.privacy is None else _calibrated(self, self.privacy, topology)


@lru_cache(maxsize=16)  # a member asks for the same noise several times in each round
def _calibrated(params: SumParams, target: PrivacyTarget, topology: Topology) -> SumNoise:
    return calibrated(params.sensitivities, target, params.encoding.n_elements, topology)


def round_config(params: SumParams, session: str, identities: Mapping[str, bytes], attempt: int = 0) -> RoundConfig:
    """Fix everything public about the round that answers a question.

    Args:
        params: the question.
        session: a text that never repeats.
        identities: members that the coordinator knows, name to Ed25519 key.
        attempt: number of the attempt, below `params.attempts`.

    Raises:
        JobError: the question cannot be answered; the text names the field.
    """
    if not 0 <= attempt < params.attempts:
        raise JobError(
            f"attempts: this is attempt number {attempt}, counted from 0, but the question allows only "
            f"{params.attempts} attempts"
        )
    members = members_of(params.members, identities)
    names = tuple(members)
    check_delta(params.privacy, len(names))
    try:
        encoding, topology = params.encoding, topology_of(params, len(names))
        noise = params.noise(topology)
        ring = ring_for(len(names), encoding, noise)
        return configure(
            RoundId(session, 0, attempt), tuple(members.items()), topology, ring, params.record, encoding, noise
        )
    except ProtocolError as error:
        raise JobError(f"members, colluding, largest, units: {error}") from error


def topology_of(params: SumParams, n_members: int) -> Topology:
    """Return who shares with whom where so many members are asked.

    Raises:
        TooFewPartiesError: there are too few for so many that may collude or drop out.
    """
    if n_members <= MAX_COMPLETE_GRAPH_MEMBERS:
        return Topology.complete(n_members, params.colluding)
    return Topology.ring(n_members, params.colluding, params.vanishing)


def check_delta(target: PrivacyTarget | None, n_members: int) -> None:
    """Refuse a delta at which publishing one member's whole contribution would count as private.

    Raises:
        JobError: it is 1 / n_members or more.
    """
    if target is not None and target.delta * n_members >= 1:
        raise JobError(f"privacy.delta: must be smaller than 1 / {n_members}, because the sum has {n_members} members")


def answer(params: SumParams, opened: OpenedSum, config: RoundConfig) -> dict[str, Any]:
    """Return the answer as JSON data: the values, the survivors, who dropped out when, and the privacy cost.

    `standard_errors` are of the noise, in the units of the values: 0 in an exact answer.

    Args:
        params: the question.
        opened: the outcome of the round, which still contains the excess noise.
        config: configuration of the round.
    """
    noise = params.noise(config.topology)
    if noise is not None:
        opened = noise.remove_surplus(opened)
    variance = 0.0 if noise is None else float(noise.variance(len(opened.survivors)))
    return answered_values(params, opened.integers(), variance) | {
        **participation(opened, config),
        "privacy": privacy_report(params, config.topology, len(opened.survivors)),
    }


def answered_values(params: SumParams, integers: NDArray[Any], variance: float) -> dict[str, Any]:
    """Return what an opened sum says, as JSON data: the values and their standard errors.

    Args:
        params: the question.
        integers: the sum with its noise, shape (encoding.n_elements,).
        variance: variance of the noise on each of them.
    """
    encoding = params.encoding
    total = encoding.decode_sum(integers)
    deviation = math.sqrt(variance)
    result: dict[str, Any] = {"analysis": params.analysis, "record": params.record}
    if params.analysis == MEAN:
        weight, units = encoding.total_weight(integers), encoding.weight_units
        mean = (total / weight).tolist() if weight > 0 else None
        result |= {"mean": mean, "total_weight": weight, "standard_error_of_weight": deviation / units}
        if mean is not None:  # by the delta method, as noise in the sum and in the weight are independent
            result |= {"standard_errors": [deviation / weight * math.hypot(1 / params.units, m / units) for m in mean]}
    elif params.analysis == HISTOGRAM:
        counts = [int(count) for count in integers]
        result |= {"edges": list(params.edges), "counts": counts, "standard_errors": [deviation] * len(counts)}
    elif params.tree is not None:
        result |= {"counts": [int(count) for count in integers], "noise_variance": variance}
    else:
        result |= {"sum": total.tolist(), "sum_in_units": [int(v) for v in integers], "units": params.units}
        result |= {"standard_errors": [deviation / params.units] * len(total)}
    return result


def privacy_report(params: SumParams, topology: Topology, n_survivors: int | None = None) -> dict[str, Any]:
    """Return what the answer costs, or that it has no guarantee. Public.

    Args:
        params: the question.
        topology: topology of the round.
        n_survivors: number of survivors; None before the round: with as few as are allowed.
    """
    noise = params.noise(topology)
    if noise is None or params.privacy is None:
        return no_guarantee_report(
            mechanism=f"{params.analysis}: an exact masked sum",
            n_parties=topology.n_members,
            colluding=topology.n_corrupt,
        )
    return noise.report(params.analysis, params.privacy.delta, n_survivors)
