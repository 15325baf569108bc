"""Every mechanism has an audit target, sound ones withstand, and a fifth too little noise is caught in each."""

import ast
import json
import math
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from syntax import nodes, statements
from typer.testing import CliRunner

import audit.reports
import dp.draw.laplace_share
import dp.draw.noise
import dp.draw.skellam
from analyses.circuit.plan import CircuitParams
from analyses.clustering.local_clustering import Method as LocalMethod
from analyses.clustering.plan import ESTIMATORS, ClusteringParams
from analyses.distribution.plan import DistributionParams
from analyses.joint_sums.protocol import JointSumParams
from analyses.logistic_regression.parameters import LogisticRegressionParams
from analyses.matrix_factorization.devices.question import NAME as FACTORS
from analyses.matrix_factorization.jobs.factor_params import FactorJobParams
from analyses.pattern_count.protocol import PatternCountParams
from analyses.power_moments.plan import MomentsParams
from analyses.registry import ANALYSES
from analyses.rows.row_plan import RowParams
from analyses.second_moments.noisy_sketch import MomentParams
from analyses.second_moments.sketch_matrix import Entries
from analyses.sums.noise import SumNoise
from analyses.sums.parameters import TableSumParams
from analyses.sums.secure_sum import SumParams
from audit import PUBLISHED, TARGETS
from audit.less_noise import with_noise
from cli.main import app
from dp.audit.audit import audit as audit_by_epsilon
from dp.audit.exact_audit import LESS, audit_exactly
from dp.draw.discrete import DiscreteGaussian, DiscreteLaplace
from dp.draw.skellam import Poisson
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.cardinality import PartitionSketch
from entropy import InsecureTestEntropy

REPOSITORY = Path(__file__).parents[4]

# -- there is a target for everything --------------------------------------------------------------------------------


def choices(model, name):
    return get_args(model.model_fields[name].annotation)


def ways_of(name, analysis):
    """All ways in which an analysis of the registry can release something, told from its parameters."""
    model = analysis.parameters
    if issubclass(model, MomentParams):
        sketches = [f"sketch, {entries}" for entries in get_args(Entries)]
        return [way for method in choices(model, "method") for way in (sketches if method == "sketch" else [method])]
    if issubclass(model, RowParams) and "method" not in model.model_fields:
        return ["mpc"]
    if issubclass(model, LogisticRegressionParams):
        given = {"label": "a.b", "method": "gradient", "weight_norm": 1, "max_rows": 10}
        ways = [(release, order) for release in choices(model, "release") for order in choices(model, "order")]
        steps = [f"{release}, order {order}" for release, order in ways if accepts(model, given, release, order)]
        return ["moments", *steps]
    if issubclass(model, ClusteringParams):
        return [f"local {method}" for method in get_args(LocalMethod)] + [f"counting {name}" for name in ESTIMATORS]
    if issubclass(model, FactorJobParams):
        noises = get_args(get_args(model.model_fields["noise"].annotation)[0])
        return [*choices(model, "setting"), *(f"sgd, {one}, {n}" for one in choices(model, "setting") for n in noises)]
    if (
        issubclass(model, JointSumParams | CircuitParams) or name == "cross-table"
    ):  # which refuses the other methods of pattern counts
        return ["mpc"]
    if issubclass(model, PatternCountParams | MomentsParams | DistributionParams):
        return choices(model, "method")
    if issubclass(model, TableSumParams):
        return ["noise"]
    raise AssertionError(f"{name}: say here which ways it has to release something, and give each an audit target")


def accepts(model, given, release, order):
    try:
        model.model_validate(given | {"release": release, "order": order})
    except ValueError:
        return False
    return True


def test_every_way_of_every_analysis_has_a_target():
    wanted = {f"{name}:{way}" for name, analysis in ANALYSES.items() for way in ways_of(name, analysis)}
    wanted |= {f"{analysis}:devices" for analysis in choices(SumParams, "analysis")}
    wanted |= {f"{FACTORS}:devices", f"{FACTORS}:devices, sgd", "pattern-count:devices"}
    covered = {way for entry in TARGETS.values() for way in entry.covers}
    assert covered == wanted


SAMPLERS = {
    "sample_skellam", "sample_discrete_laplace", "sample_discrete_gaussian", "sample_bernoulli",
    "sample_binomial", "sample_categorical", "sample_uniform", "highest_of_many", "highest_of_clusters",
}  # fmt: skip
NOT_MECHANISMS = {"dp/draw/noise.py", "dp/draw/skellam.py"}
SIMULATIONS = {
    "analyses/matrix_factorization/in_process.py",
    "analyses/matrix_factorization/descent/horizontal_descent.py",
    "analyses/matrix_factorization/descent/in_process_steps.py",
    "analyses/matrix_factorization/descent/vertical_descent.py",
}
"""Simulations of all members in one process, with noise drawn for all of them at once: no service runs them."""


NOT_NOISE = {("device/questions/survey.py", "_uniform"), ("analyses/second_moments/work.py", "party_s")}
"""Which round of a series a device answers in, and what is drawn to see how long that takes: they hide no value."""

SHARED = {"job", "rows", "second_moments"}
"""Folders of what several analyses stand on."""

OFFERED = {analysis.own_plan.__module__.split(".")[1] for analysis in ANALYSES.values()}
"""Folders of analyses that services run. What is not offered yet may still lack targets."""


def drawing_functions():
    """All functions of the rooms that hold mechanisms in which a sampler is called: (path, name)."""
    found = set()
    for room in ("dp", "analyses", "mpc", "party", "device"):
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            where = path.relative_to(REPOSITORY).as_posix()
            if where in NOT_MECHANISMS | SIMULATIONS:
                continue
            if room == "analyses" and where.count("/") > 1 and where.split("/")[1] not in OFFERED | SHARED:
                continue
            source = path.read_text(encoding="utf-8")
            for function in statements(source) if any(sampler in source for sampler in SAMPLERS) else ():
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    names = {node.id for node in nodes(function) if isinstance(node, ast.Name)}
                    if names & SAMPLERS:
                        found.add((where, function.name))
    return found


def test_every_function_that_draws_noise_is_run_by_a_target():
    # An edit that adds a mechanism without a target fails here, whatever analysis uses it.
    codes = set()

    def note(frame, event, _):
        if event == "call":
            codes.add(frame.f_code)

    entropy = InsecureTestEntropy("calls")
    for name, entry in TARGETS.items():
        if "ring" in name:
            continue
        target = entry.make()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            target.draw(1, 1, entropy)
        finally:
            sys.setprofile(before)
    places = {(Path(code.co_filename), code.co_name) for code in codes}
    called = {(at.relative_to(REPOSITORY).as_posix(), name) for at, name in places if at.is_relative_to(REPOSITORY)}
    drawing = drawing_functions()
    assert len(drawing) > 10
    assert drawing - called == NOT_NOISE


# -- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TARGETS if "ring" not in name])
def test_outputs_have_as_many_columns_as_parts_and_laws_that_add_up(name):
    target = TARGETS[name].make()
    for noise in (Fraction(1), LESS):
        parts = target.parts(noise)
        for part in parts:
            assert part.masses.min() >= 0
            assert part.masses.sum(axis=1) == pytest.approx([1, 1], abs=1e-9)
    outputs = target.draw(1, 3, InsecureTestEntropy(f"shape {name}"))
    sizes = [part.masses.shape[1] for part in target.parts(Fraction(1)) for _ in range(part.times)]
    assert outputs.shape == (3, len(sizes))
    assert (outputs >= 0).all()
    assert (outputs < sizes).all()


@pytest.mark.parametrize("name", [name for name in TARGETS if name.startswith("factors")])
def test_the_unit_of_a_factorization_moves_every_release_of_it(name):
    releases = TARGETS[name].make().release.releases
    assert len(releases) == 2
    assert all(any(one.difference) for one in releases)


RUNS_PER_PORTION = 128


class Drawn:
    """Runs of a target, drawn once per process for all tests of it; each looks at as many of them as it needs.

    Every portion has a seed of its own, so that nothing depends on which test comes first.
    """

    def __init__(self, name, noise):
        self.name, self.noise = name, noise
        self.target = TARGETS[name].make().with_noise(noise)
        self.portions = {0: [], 1: []}

    def draw(self, world, n_runs, _):
        portions = self.portions[world]
        while len(portions) * RUNS_PER_PORTION < n_runs:
            entropy = InsecureTestEntropy(f"{self.name}, noise {self.noise}, input {world}, {len(portions)}")
            portions.append(self.target.draw(world, RUNS_PER_PORTION, entropy).astype(np.int32))
        return np.concatenate(portions)[:n_runs]


drawn = cache(Drawn)


def assert_sound_withstands_and_less_is_caught(name, design):
    unused = InsecureTestEntropy("unused")
    assert not audit_exactly(drawn(name, Fraction(1)), design, unused).is_beaten
    less = drawn(name, LESS)
    if design.noise.power < design.privacy.power:
        assert audit_exactly(less, design, unused).is_beaten
    else:  # the noise test alone has the power of the design, and does not need runs of input 1
        concentrations = design.concentration.of(less.draw(0, design.n_runs, unused))
        assert design.noise.event.hits(concentrations) >= design.noise.least_hits


@pytest.mark.parametrize("name", ["gram-coalition", "sum-of-3-coordinator", "moments-laplace", "devices-coalition"])
def test_in_few_runs_a_sound_mechanism_withstands_and_a_fifth_too_little_noise_is_caught(name):
    # False alarm 1e-3, power 0.99: with fixed seeds neither shows.
    design = TARGETS[name].design(false_alarm=1e-3, power=0.99, least_power=0.0)
    assert_sound_withstands_and_less_is_caught(name, design)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TARGETS))
def test_sound_mechanisms_withstand_and_a_fifth_too_little_noise_is_caught(name):
    whole = TARGETS[name].design(power=0.999, least_power=0.0)
    assert whole.false_alarm <= 1e-5
    assert whole.power >= 0.999
    # Seeds are fixed, so an audit of half of the runs says as much of the code.
    assert_sound_withstands_and_less_is_caught(
        name, TARGETS[name].design(false_alarm=1e-3, power=0.99, least_power=0.0)
    )


DRAWN_BY_THE_SAMPLERS = [
    "devices-coalition", "gram-coalition", "independent-coalition", "lloyd-coalition", "logistic-sums-coalition",
    "masked-counts-coalition", "memberships-coalition", "moments-laplace", "moments-large", "moments-sketch-coalition",
    "pattern-count-coalition", "sketch-coalition", "sum-of-3-coalition", "tree-coalition",
    "factors-vertical-coalition",
]  # fmt: skip


@pytest.mark.parametrize("name", DRAWN_BY_THE_SAMPLERS)
def test_samplers_that_draw_a_fifth_too_little_are_caught(name, monkeypatch):
    # Not the parameter that a mechanism hands over is wrong but what the sampler does with it. Targets that drew their
    # noise in any other way than jobs do would not notice.
    entry = TARGETS[name]
    # The fault for which `moments-large` has its runs is larger: it is of epsilon, and the noise follows from that.
    n_runs = 20_000 if name == "moments-large" else None
    target, design = entry.make(), entry.design(n_runs=n_runs, false_alarm=1e-3, power=0.99, least_power=0.0)
    root = Fraction(round(math.sqrt(LESS) * 1000), 1000)
    monkeypatch.setattr(dp.draw.skellam, "Poisson", lambda rate: Poisson(rate * LESS))
    monkeypatch.setattr(dp.draw.laplace_share, "Poisson", lambda rate: Poisson(rate * LESS))
    monkeypatch.setattr(dp.draw.noise, "DiscreteGaussian", lambda variance: DiscreteGaussian(variance * LESS))
    monkeypatch.setattr(dp.draw.noise, "DiscreteLaplace", lambda scale: DiscreteLaplace(scale * root))
    assert audit_exactly(target, design, InsecureTestEntropy(f"sampler, {name}")).is_beaten


def unbounded_samples(self, stream, n_units):
    for _ in range(self.n_steps):
        yield np.flatnonzero(stream.words((n_units + 1) // 2).view(np.uint32)[:n_units] < self.rate_units)


def always_in_the_sample(stream, n_rows, n_slots, n_reported):
    return np.array([0] * n_rows + [-1] * (n_reported - n_rows))


def no_shared_phantoms(self, stream, axis):
    return np.zeros((self.n_sketches, self.n_clusters), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "where", "attribute", "faulty"),
    [
        pytest.param("logistic-coalition", BoundedPoisson, "samples", unbounded_samples, marks=pytest.mark.slow),
        ("sampled-bits", audit.reports, "placement", always_in_the_sample),
        ("cardinality", PartitionSketch, "_shared_levels", no_shared_phantoms),
        ("sum-of-3-coalition", SumNoise, "base_part", property(lambda self: Fraction(1, 5) * LESS)),
    ],
)
def test_other_faults_than_too_small_a_parameter_are_caught(name, where, attribute, faulty, monkeypatch):
    # No bound on participations; a sample that is not random; sketches without what makes them private; a small base.
    entry = TARGETS[name]
    target, design = entry.make(), entry.design()
    monkeypatch.setattr(where, attribute, faulty)
    assert audit_exactly(target, design, InsecureTestEntropy(f"fault, {name}")).is_beaten


def test_noise_of_mechanisms_that_nobody_has_thought_of_is_not_scaled():
    with pytest.raises(TypeError, match="not defined"):
        with_noise(object(), LESS)


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_published_mechanisms_with_a_fault_are_caught(name):
    entry = PUBLISHED[name]
    assert audit_by_epsilon(entry.make(), InsecureTestEntropy(f"audit {name}"), n_runs=entry.n_runs).is_beaten


# -- the command -----------------------------------------------------------------------------------------------------


def test_a_sound_mechanism_ends_with_0_and_says_what_was_claimed_and_what_was_seen():
    done = CliRunner().invoke(app, ["audit", "moments-coalition"])
    assert done.exit_code == 0
    assert "withstands, as expected" in done.stdout
    assert "delta is claimed to be" in done.stdout
    assert "false alarm 1e-05" in done.stdout


def test_too_little_noise_ends_with_0_where_it_is_caught_and_with_1_where_it_is_not():
    caught = CliRunner().invoke(app, ["audit", "moments-coalition", "--noise", "0.8", "--format", "json"])
    assert caught.exit_code == 0
    (found,) = json.loads(caught.stdout)
    assert (found["is_sound"], found["is_beaten"], found["as_expected"]) == (False, True, True)
    assert found["concentration"]["hits"] >= found["concentration"]["hits_that_are_an_alarm"]

    missed = CliRunner().invoke(app, ["audit", "moments-coalition", "--noise", "0.8", "--runs", "100"])
    assert missed.exit_code == 1
    assert "withstands, NOT AS EXPECTED" in missed.stdout


def test_a_published_fault_is_printed_as_json_and_ends_with_0_if_it_is_caught():
    done = CliRunner().invoke(app, ["audit", "faulty-float-laplace", "--format", "json"])
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    assert found["is_beaten"] is True
    assert found["epsilon_at_least"] > found["claimed_epsilon"]


@pytest.mark.parametrize("arguments", [["nothing"], ["faulty-sketch", "--noise", "0.8"]])
def test_what_cannot_be_audited_is_a_usage_error(arguments):
    done = CliRunner().invoke(app, ["audit", *arguments])
    assert done.exit_code == 2
    assert "faulty-sketch" in done.output
