import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_builders import make_job

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table, columns_called
from analyses.rows.integer_column import (
    IntegerColumn,
    integer_columns,
    joined_columns,
    largest_indicators,
    nearest_places,
)

COLUMN = IntegerColumn("bank.code", -1, 3)


def table(values):
    schema = BlockSchema(party="bank", columns=(ColumnSchema(name="code", lower=-1, upper=3),))
    return Table(schema, np.array(values, dtype=np.float64)[:, None])


def test_categories_count_from_the_lower_bound():
    assert COLUMN.n_values == 5
    places, n_mapped = COLUMN.places(table([-1, 0, 3]).values)
    assert (places.tolist(), n_mapped) == ([0, 1, 4], 0)


@pytest.mark.parametrize(
    ("value", "becomes"), [(-2, -1), (-1.4, -1), (4, 3), (1e300, 3), (-1e300, -1), (0.5, 0), (1.5, 2), (2.6, 3)]
)
def test_what_is_no_category_becomes_the_nearest_and_is_counted(value, becomes):
    places, n_mapped = COLUMN.places(table([0, value, 1, 3]).values)
    assert (places.tolist(), n_mapped) == ([1, becomes + 1, 2, 4], 1)


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(-10, 10), st.integers(1, 99))
def test_what_a_value_becomes_depends_on_no_other_value(values, lower, width):
    """Then tables that differ in one record differ in that one at most when they are mapped: see the module."""
    together, n_mapped = nearest_places(np.array(values), lower, lower + width)
    alone = [nearest_places(np.array([value]), lower, lower + width) for value in values]
    assert together.tolist() == [int(place[0]) for place, _ in alone]
    assert n_mapped == sum(n for _, n in alone)
    assert 0 <= together.min() <= together.max() <= width
    column = IntegerColumn("bank.code", 0, width)
    counts, n_clipped, n_rounded = column.clipped(table(values), width)
    parts = [column.clipped(table([value]), width) for value in values]
    assert counts.tolist() == [int(count[0]) for count, *_ in parts]
    assert (n_clipped, n_rounded) == tuple(np.sum([rest for _, *rest in parts], axis=0))


@settings(deadline=None)
@given(st.floats(-1e15, 1e15), st.integers(1, 99))
def test_an_event_moves_a_count_by_one_at_most_whatever_the_value_was(value, most):
    before, after = COLUMN.clipped(table([value, value + 1]), most)[0].tolist()
    assert abs(after - before) <= 1


@pytest.mark.parametrize("lower", [2**60, -(2**60), 2**65])
def test_places_far_from_zero_are_exact(lower):
    step = int(np.spacing(float(abs(lower))))
    column = IntegerColumn("bank.code", lower, lower + 2 * step)
    assert column.places(table([lower, lower + step, 9e99]).values)[0].tolist() == [0, step, 2 * step]


def test_counts_are_rounded_toward_zero_and_clipped_and_both_are_counted():
    values, n_clipped, n_rounded = COLUMN.clipped(table([-1, 0.9, 1.2, 3, 2]), 2)
    assert values.tolist() == [0, 0, 1, 2, 2]
    assert (n_clipped, n_rounded) == (2, 2)


def schemas_of(columns):
    owners = (
        BlockSchema(party="bank", columns=columns, rows=(1, 9)),
        BlockSchema(party="shop", columns=(PLAIN,), rows=(1, 9)),
    )
    return make_job(
        inputs=[{"party": one.party, "table": "people"} for one in owners], compute=["bank", "shop", "one"]
    ), (
        *owners,
        BlockSchema(party="one"),
    )


PLAIN = ColumnSchema(name="code", lower=0.0, upper=2.0)
REGION = tuple(
    ColumnSchema(name=f"region={name}", lower=0.0, upper=1.0, group="region") for name in ("north", "south", "missing")
)


def test_the_columns_of_one_category_are_taken_as_it_with_its_labels():
    (category,), (code,) = (one.parts for one in joined_columns(*schemas_of(REGION)))
    assert (category.name, category.labels, category.n_values) == ("bank.region", ("north", "south", "missing"), 3)
    assert (code.name, code.labels, code.n_values) == ("shop.code", (), 3)


def test_several_columns_of_an_owner_are_one_whose_places_are_those_of_all_values_together():
    joined, _ = joined_columns(*schemas_of((*REGION, PLAIN)))
    assert [part.name for part in joined.parts] == ["bank.region", "bank.code"]
    rows = np.array([[0, 1, 0, 2], [1, 0, 0, 0], [0, 0, 1, 1.4], [0, 0, 0, 9], [0, 1, 0, 0]])
    places, n_mapped = joined.places(rows)
    assert (joined.n_values, places.tolist()) == (9, [5, 0, 7, 2, 3])
    assert n_mapped.tolist() == [1, 1, 1, 2]  # rows without a region; codes that are none
    assert [joined.places(row[None])[0][0] for row in rows] == places.tolist()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ((), "bank must bring a column"),
        (
            (
                PLAIN.model_copy(update={"group": "code"}),
                ColumnSchema(name="code=none", lower=0, upper=1, group="code"),
            ),
            r"bank\.code is encoded as 2 columns \(code, code=none\) that are no category",
        ),
        (
            tuple(REGION[at].model_copy(update={"name": f"region:{at}*ill", "group": "region*ill"}) for at in (0, 1)),
            r"bank\.region\*ill is encoded as 2 columns",
        ),
        ((REGION[0], PLAIN, *REGION[1:]), "bank must bring a category whole"),
        ((PLAIN, PLAIN.model_copy(update={"name": "size", "upper": 0.5})), r"bounds 0\.\.0\.5 of bank\.size are not"),
    ],
    ids=["no column", "a number with a column for gaps", "products", "a category in two places", "no integers"],
)
def test_other_columns_are_no_category(columns, text):
    with pytest.raises(JobError, match=text):
        joined_columns(*schemas_of(columns))


def test_a_product_of_columns_of_yes_or_no_is_one_of_them_and_added_columns_have_their_sum():
    marks = tuple(ColumnSchema(name=name, lower=0.0, upper=1.0) for name in ("ill", "owns", "old"))
    (product,), _ = (one.parts for one in joined_columns(*schemas_of(columns_called(marks, ("ill*owns*old",)))))
    assert (product.name, product.n_values) == ("bank.ill*owns*old", 2)
    added, _ = joined_columns(*schemas_of((*marks, PLAIN)), adds=True)
    rows = np.array([[1, 0, 1, 2], [0, 0, 0, 0], [1, 1, 1, 9], [0.4, 1, 0, 1]])
    places, n_mapped = added.places(rows)
    assert (added.n_values, places.tolist(), n_mapped.tolist()) == (6, [4, 0, 5, 2], [1, 0, 0, 1])


def test_one_value_alone_is_a_column_of_integers():
    ((value,), _) = (one.parts for one in joined_columns(*schemas_of(REGION[:1])))
    assert (value.name, value.labels, value.n_values) == ("bank.region=north", (), 2)


@pytest.mark.parametrize(
    "named",
    [
        ("region=north", "region=south"),
        ("region=south", "region=north", "region=missing"),
        ("region=north", "code", "region"),
        ("region=north", "region"),
    ],
)
def test_a_category_is_brought_whole_or_rows_of_other_values_would_count_as_its_first(named):
    job, schemas = schemas_of(columns_called((*REGION, PLAIN), named))
    brought, other = job.inputs
    part = job.model_copy(update={"inputs": (brought.model_copy(update={"columns": named}), other)})
    with pytest.raises(JobError, match="bank must bring a category whole: name 'region' in `columns`, not the"):
        joined_columns(part, schemas)
    job, schemas = schemas_of(columns_called((*REGION, PLAIN), ("code", "region")))
    whole = job.model_copy(update={"inputs": (brought.model_copy(update={"columns": ("code", "region")}), other)})
    assert joined_columns(whole, schemas)[0].n_values == 9


def test_other_analyses_take_no_category():
    with pytest.raises(
        JobError, match=r"must bring exactly one column, not 3 \(region=.*\); name one of them in `columns`"
    ):
        integer_columns(*schemas_of(REGION))


def test_a_row_of_encoded_columns_is_in_exactly_one_category_whatever_it_holds():
    rows = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0], [0.2, 9e300, -9e300], [0.5, 0.25, 0.25]])
    places, n_mapped = largest_indicators(rows)
    assert places.tolist() == [1, 0, 0, 0, 1, 0]
    assert n_mapped == 4
    assert [largest_indicators(row[None])[0][0] for row in rows] == places.tolist()
