import numpy as np
import pytest

from algorithms.integer_column import IntegerColumn
from algorithms.job import JobError
from algorithms.schema import BlockSchema, ColumnSchema, Table

COLUMN = IntegerColumn("bank.code", -1, 3)


def table(values):
    schema = BlockSchema(party="bank", columns=(ColumnSchema(name="code", lower=-1, upper=3),))
    return Table(schema, np.array(values, dtype=np.float64)[:, None])


def test_categories_count_from_the_lower_bound():
    assert COLUMN.n_values == 5
    assert COLUMN.categories(table([-1, 0, 3])).tolist() == [0, 1, 4]


@pytest.mark.parametrize("bad", [-2, 4, 0.5])
def test_what_is_no_category_is_refused_without_saying_what_or_where(bad):
    with pytest.raises(JobError) as refusal:
        COLUMN.categories(table([0, 1, bad]))
    what = "inputs: column bank.code holds a value that is no category -1..3"
    assert str(refusal.value) == f"{what}; its owner must correct the table or its bounds"


def test_counts_are_rounded_toward_zero_and_clipped_and_the_clipped_ones_counted():
    values, n_clipped = COLUMN.clipped(table([-1, 0.9, 1.2, 3, 2]), 2)
    assert values.tolist() == [0, 0, 1, 2, 2]
    assert n_clipped == 2
