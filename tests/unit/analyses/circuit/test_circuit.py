"""Programs as jobs, all members in one process, beside the pooled answer."""

import numpy as np
import person_tables
import pytest
from virtual_time import run_in_virtual_time

from analyses.circuit.program import N_OPERANDS, RANGES, program_of, ranges_of
from analyses.circuit.reference import reference
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import ANALYSES
from analyses.run_locally import local_network, run_locally, run_plan
from dp.cost.composition import composed_epsilon
from dp.cost.report import describe
from entropy import InsecureTestEntropy

OWNERS = ("bank", "clinic", "shop")
BOUNDS = {"x": (-6.0, 9.0), "y": (0.0, 1.0)}
N_ROWS = 70
EVERYTHING = [
    *(f"{owner}_{name} = column({owner}.{name})" for owner in OWNERS for name in BOUNDS),
    "sum2 = add(bank_x, clinic_x)",
    "diff = sub(5, shop_x)",
    "product = mul(sum2, diff)",
    "cube = mul(product, bank_x)",
    "scaled = mul(-3, cube)",
    "below = less(product, shop_x)",
    "at_most = less_equal(4, bank_x)",
    "same = equal(bank_x, clinic_x)",
    "chosen = select(bank_y, cube, clinic_y)",
    "either = select(shop_y, 7, -2)",
    "small = minimum(chosen, 20)",
    "large = maximum(bank_x, shop_x)",
    "low = low_bits(cube, 3)",
    "high = floor_shift(cube, 2)",
    *(
        f"open {name} = sum({name})"
        for name in (
            "sum2", "diff", "product", "cube", "scaled", "below", "at_most", "same", "chosen", "either", "small",
            "large", "low", "high",
        )
    ),
]  # fmt: skip


def tables():
    rng = np.random.default_rng(7)
    found = {}
    for owner in OWNERS:
        columns = tuple(ColumnSchema(name=n, lower=low, upper=high) for n, (low, high) in BOUNDS.items())
        values = np.stack([rng.integers(-6, 10, N_ROWS), rng.integers(0, 2, N_ROWS)], axis=1).astype(float)
        found[owner] = Table(BlockSchema(party=owner, columns=columns, rows=(1, 100)), values)
    return found


def job(lines, epsilon=1e4, **changes):
    columns = [name for name in BOUNDS if any(f"bank.{name})" in line for line in lines)]
    fields = {
        "analysis": "circuit",
        "inputs": [{"party": owner, "table": "rows", "columns": columns} for owner in OWNERS],
        "order": "trusted",
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"program": lines},
    }
    return Job.model_validate({**fields, **changes})


ROSTERS = [(), (*OWNERS, "helper"), (*OWNERS, "helper", "other")]
MALICIOUS = [pytest.param(compute, "malicious", marks=pytest.mark.slow) for compute in ROSTERS]


@pytest.mark.parametrize(("compute", "security"), [(ROSTERS[1], "semi-honest"), *MALICIOUS])
def test_every_operation_gives_the_pooled_answer(compute, security, monkeypatch):
    monkeypatch.setattr("analyses.circuit.plan.ROWS_PER_BLOCK", 32)
    asked = job(EVERYTHING, compute=compute, security=security)
    # Laplace noise, as here, passes six deviations once in 5,000 draws, and a run has 14 of them.
    drawn = run_locally(asked, tables(), entropy_of=lambda member: InsecureTestEntropy(f"everything, {member}"))
    run = run_in_virtual_time(drawn)
    assert not run.failures
    exact = reference(list(tables().values()), run.plan)
    values = dict(zip(run.result["names"], run.result["values"], strict=True))
    errors = run.plan.standard_errors
    for name, error in zip(run.result["names"], errors, strict=True):
        assert abs(values[name] - exact[name]) <= 6 * error + 1e-9, name
    assert min(errors) < 0.2  # close enough to see a wrong row


def test_values_that_are_no_integers_within_bounds_become_the_nearest():
    lines = [*(f"{owner} = column({owner}.x)" for owner in OWNERS), "a = add(bank, clinic)", "b = add(a, shop)"]
    given = tables()
    for table in given.values():
        table.values[:3, 0] = [-1e300, 1e300, 2.4]
    given = {
        o: Table(BlockSchema(party=o, columns=t.schema.columns[:1], rows=(1, 100)), t.values[:, :1])
        for o, t in given.items()
    }
    run = run_in_virtual_time(run_locally(job([*lines, "open total = sum(b)"]), given))
    (value,) = run.result["values"]
    clipped = sum(np.rint(np.clip(table.values[:, 0], -6, 9)).sum() for table in given.values())
    assert abs(value - clipped) < 1


def plan_of(lines, **changes):
    asked = job(lines, **changes)
    return ANALYSES["circuit"].plan(asked, [table.schema for table in tables().values()])


def test_the_report_states_each_opening_with_its_range_and_error():
    whole = plan_of(EVERYTHING).privacy_report()
    assert any(program_of(EVERYTHING).digest in line for line in describe(whole)), "owners' policies name it"
    report = whole["program"]
    assert [one["name"] for one in report["openings"]][:2] == ["sum2", "diff"]
    assert report["openings"][0]["row_range"] == [-12, 18]
    assert report["openings"][0]["line"] == "open sum2 = sum(sum2)"
    assert report["masked_openings_per_row"] == 7
    assert report["delta_of_masked_openings"] == 14 * 2.0**-40


def test_masked_openings_take_their_part_of_delta():
    """The noise is that of a smaller delta, and a delta that they take whole is refused."""
    plan = plan_of(EVERYTHING, privacy={"epsilon": 1.0, "delta": 2e-11, "view": "coalition"})
    smaller = plan.noise.epsilon("coalition", 2e-11 - 14 * 2.0**-40).epsilon
    assert plan.noise.epsilon("coalition", 2e-11).epsilon < smaller <= 1
    report = plan.privacy_report()
    assert (report["delta"], report["views"]["coalition"]["epsilon"]) == (2e-11, smaller)
    with pytest.raises(JobError, match=r"privacy.delta: 1e-11 is not more than the 1.3e-11"):
        plan_of(EVERYTHING, privacy={"epsilon": 1.0, "delta": 1e-11})


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            [line.replace("cube, clinic_y", "cube, 3") for line in EVERYTHING if not line.startswith("clinic_y")],
            "does not use column clinic.y",
        ),
        ([*EVERYTHING, "zero = mul(0, low)", "open zero = sum(zero)"], "it is always 0"),
        ([*EVERYTHING, "huge = mul(cube, 100000000000000)", "h = less(huge, 1)", "open h = sum(h)"], None),
        ([*EVERYTHING, "huge = mul(cube, 100000000000000000)"], "more than 61 bits"),
    ],
)
def test_what_cannot_be_planned_is_refused(lines, why):
    if why is None:
        assert plan_of(lines).n_primes > plan_of(EVERYTHING).n_primes
        return
    with pytest.raises(JobError, match=why):
        plan_of(lines)


def test_proofs_of_values_are_charged_and_masks_of_proven_bits_take_a_little_more_of_delta():
    lines = [*EVERYTHING[:6], "a = less(bank_x, clinic_x)", "b = less(a, shop_x)", "c = mul(bank_y, clinic_y)"]
    lines += ["d = mul(c, shop_y)", "e = mul(b, d)", "open e = sum(e)"]
    asked = {"epsilon": 1.0, "delta": 1e-6, "view": "coalition"}
    plan, trusting = plan_of(lines, privacy=asked, security="malicious"), plan_of(lines, privacy=asked)
    report = plan.privacy_report()
    besides = 4 * (2.0**-40 + 2.0**-46)
    assert report["program"]["delta_of_masked_openings"] == besides
    assert report["delta_of_noise_proofs"] == 3 * 2.0**-40
    left = plan.delta_of_releases
    assert left == pytest.approx(1e-6 - besides - 3 * 2.0**-40, rel=1e-12)
    assert report["security"] == "malicious"
    assert len(plan.releases) == 1 + len(OWNERS)
    whole = composed_epsilon(plan.privacy_events("coalition"), left).epsilon
    assert report["views"]["coalition"]["epsilon"] == whole <= 1
    assert plan.noise.epsilon("coalition", left).epsilon < whole
    assert trusting.standard_errors[0] <= plan.standard_errors[0] < 1.1 * trusting.standard_errors[0]
    assert {owner: bound.ranges for owner, bound in plan.norm_bounds.items()} == dict.fromkeys(plan.owners, (15, 1))


FRACTIONS = [
    *(f"{owner} = column({owner}.x)" for owner in OWNERS),
    "above = add(clinic, 7)",
    "ratio = divide(bank, above, 5)",
    "chance = sigmoid(shop, 1)",
    "product = mul(ratio, chance)",
    "half = truncate(product, 1)",
    *(f"open {name} = sum({name})" for name in ("ratio", "chance", "half")),
]


def test_functions_of_fractions_are_proven_with_at_most_one_proof_of_bits_for_each_step(monkeypatch):
    """And not one for each of its openings. Blocks are as high as one such proof allows; bytes are as forecast."""
    monkeypatch.setattr("analyses.circuit.steps.MOST_ROWS", 300)
    given = {
        o: Table(BlockSchema(party=o, columns=t.schema.columns[:1], rows=(1, 100)), t.values[:, :1])
        for o, t in tables().items()
    }
    asked = job(FRACTIONS, security="malicious")
    plan = ANALYSES["circuit"].plan(asked, [table.schema for table in given.values()])
    assert 1 < plan.rows_at_once < N_ROWS
    network = local_network(plan)
    run = run_in_virtual_time(run_plan(plan, given, network))
    assert not run.failures
    exact, result = reference(list(given.values()), plan), run.result
    for name, value, error, rounding in zip(
        result["names"], result["values"], result["standard_errors"], result["roundings_per_row"], strict=True
    ):
        assert abs(value - exact[name]) <= 6 * error + N_ROWS * rounding, name
    proofs = {m.stage for m in network.transcript if m.stage.startswith("bits ") and m.stage.endswith("/input")}
    masked = {m.stage for m in network.transcript if m.stage.startswith("opening ")}
    assert 2 <= -(-N_ROWS // plan.rows_at_once) <= len(proofs) < len(masked) / 5
    traffic = plan.traffic(N_ROWS)
    of_gates = 2  # that each party has paid; there are none here
    assert all(traffic.bytes_of(party) - of_gates == network.sent_bytes[party] for party in (1, 2, 3))


@pytest.mark.slow
def test_rows_of_a_person_beyond_those_that_count_add_nothing_where_members_may_deviate():
    variant = person_tables.JOBS["circuit"]
    given = person_tables.tables_of_persons(variant)
    results = []
    for security in ("semi-honest", "malicious"):
        asked = variant.job(
            privacy={"epsilon": person_tables.EPSILON, "delta": 1e-6},
            parameters={**variant.parameters, "unit": "person"},
            security=security,
            anyway=True,
        )
        run = run_in_virtual_time(run_locally(asked, given))
        assert not run.failures
        results.append(np.array(run.result["values"]))
    assert results[0].any()
    assert np.abs(results[0] - results[1]).max() < 0.5
    first = run.plan.norm_bounds[run.plan.owners[0]]
    assert first.ranges[-1] == 1, "the first owner proves that whether a row counts is 0 or 1"


def test_columns_that_are_too_wide_to_be_proven_are_refused(monkeypatch):
    monkeypatch.setitem(BOUNDS, "x", (0.0, float(1 << 30)))
    lines = [
        *EVERYTHING[:6],
        *(f"open {line.split(' = ')[0]} = sum({line.split(' = ')[0]})" for line in EVERYTHING[:6]),
    ]
    assert plan_of(lines)
    with pytest.raises(JobError, match="security: rows of integers as long as these cannot be proven"):
        plan_of(lines, security="malicious")


def test_bounds_that_are_no_integers_are_refused(monkeypatch):
    monkeypatch.setitem(BOUNDS, "y", (0.0, 0.5))
    with pytest.raises(JobError, match=r"the bounds 0..0.5 of bank.y are not integers"):
        plan_of(EVERYTHING)


def test_a_mask_for_which_no_field_has_room_is_refused_at_planning(monkeypatch):
    monkeypatch.setattr("mpc.protocol.operations.bits.STATISTICAL_BITS", 120)
    with pytest.raises(JobError, match="use more primes or tighter bounds"):
        plan_of(EVERYTHING)


def random_program(rng):
    """Lines of up to 14 random steps whose ranges stay below 2^24, and the sums of all of them."""
    lines = [*EVERYTHING[:6]]
    names = [line.split(" = ")[0] for line in lines]
    bounds = {f"{owner}.{name}": (int(low), int(high)) for owner in OWNERS for name, (low, high) in BOUNDS.items()}
    while len(lines) < 20:
        operation = str(rng.choice(sorted(RANGES)))
        operands = [str(rng.choice([*names, "3", "-2"])) for _ in range(N_OPERANDS[operation])]
        if operation in ("low_bits", "floor_shift"):
            operands[1] = str(rng.integers(1, 8))
        line = f"s{len(lines)} = {operation}({', '.join(operands)})"
        try:
            ranges = ranges_of(program_of([*lines, line, f"open o = sum(s{len(lines)})"]), bounds, t=1)
        except JobError:
            continue
        if max(map(abs, ranges[f"s{len(lines)}"])) < 1 << 24 and ranges[f"s{len(lines)}"] != (0, 0):
            names.append(f"s{len(lines)}")
            lines.append(line)
    return [*lines, *(f"open {name} = sum({name})" for name in names[6:])]


PROVEN = [pytest.param(seed, "malicious", marks=pytest.mark.slow) for seed in (11, 12, 13)]


@pytest.mark.parametrize(("seed", "security"), [*((seed, "semi-honest") for seed in range(3)), *PROVEN])
def test_random_programs_give_the_pooled_answer(seed, security):
    rng = np.random.default_rng(seed)
    compute = [(), (*OWNERS, "helper"), (*OWNERS, "helper", "other")][seed % 3]
    asked = job(random_program(rng), epsilon=1e7, compute=compute, anyway=True, security=security)
    run = run_in_virtual_time(run_locally(asked, tables()))
    assert not run.failures
    exact = reference(list(tables().values()), run.plan)
    found = zip(run.result["names"], run.result["values"], run.plan.standard_errors, strict=True)
    for name, value, error in found:
        assert abs(value - exact[name]) <= 8 * error + 1e-9, name
