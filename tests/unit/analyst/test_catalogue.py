import pytest

from analyses.job.job import Job, JobError
from analyses.job.listing import ListedTable
from analyses.job.schema import BlockSchema, ColumnSchema
from analyst.catalogue import Catalogue

INCOME = ColumnSchema(name="Einkommen (EUR)", lower=0, upper=9)
BLOCK = BlockSchema(party="bank", columns=(INCOME,))
PEOPLE = ListedTable(name="people", block=BLOCK, usual=("Einkommen (EUR)",), admitted={})
LISTED = Catalogue({"bank": {"people": PEOPLE}, "shop": {}}, {})


@pytest.mark.parametrize(
    ("brought", "told"),
    [
        ({"party": "bnak", "table": "people"}, "no party 'bnak' in the roster; did you mean 'bank'?"),
        ({"party": "bank", "table": "peple"}, "did you mean 'people'?"),
        ({"party": "bank", "table": "visits"}, "you may use; it has 'people'"),
        ({"party": "bank", "table": "people", "columns": ["Einkomen"]}, "did you mean 'Einkommen (EUR)'?"),
    ],
)
def test_a_name_that_is_not_listed_is_told_with_the_one_that_was_meant(brought, told):
    job = Job.model_validate({"analysis": "pca", "inputs": [brought]})
    with pytest.raises(JobError) as caught:
        LISTED.schemas_of(job)
    assert told in str(caught.value)
