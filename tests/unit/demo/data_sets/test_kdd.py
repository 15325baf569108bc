from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analyses.job.job import Job, JobInput
from demo.data_sets.kdd import CATEGORICAL, CATEGORIES, NUMERIC, KddParties, bounds_of, write_kdd_parties
from party.config import PartyConfig
from party.tables.table import load_table

SOURCE = Path(__file__).parents[4] / "cli" / "data" / "kddcup99" / "distinct.csv.gz"
WIDTHS = {"carrier": 20, "host": 13, "monitor": 85}


@pytest.fixture(scope="module")
def connections() -> pl.DataFrame:
    return pl.read_csv(SOURCE)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> KddParties:
    return write_kdd_parties(tmp_path_factory.mktemp("kdd"))


def test_the_parties_hold_118_columns_of_all_rows(parties: KddParties) -> None:
    assert {party: len(table.usual_bounds) for party, table in parties.tables.items()} == WIDTHS
    assert parties.pooled.shape == (145_586, 118)
    assert parties.pooled.dtype == np.float64
    for table in parties.tables.values():
        assert pl.read_parquet(table.path).columns == [table.id_column, *table.bounds]


def test_every_feature_of_the_file_but_the_label_goes_to_one_party(connections: pl.DataFrame) -> None:
    given = [name for party in NUMERIC for name in (*NUMERIC[party], *CATEGORICAL[party])]
    assert sorted(given) == sorted(set(connections.columns) - {"label"})


def test_every_category_of_the_file_is_listed(connections: pl.DataFrame) -> None:
    for feature, values in CATEGORIES.items():
        assert sorted(connections[feature].unique().to_list()) == sorted(values)


def test_each_row_has_exactly_one_value_of_each_categorical_feature(parties: KddParties) -> None:
    names = [name for table in parties.tables.values() for name in table.usual_bounds]
    for feature in CATEGORIES:
        encoded = parties.pooled[:, [i for i, name in enumerate(names) if name.startswith(f"{feature}_")]]
        assert set(np.unique(encoded)) == {0.0, 1.0}
        assert (encoded.sum(axis=1) == 1).all()


def test_encoded_columns_mark_the_rows_of_their_category(parties: KddParties, connections: pl.DataFrame) -> None:
    for party, feature, value in (("monitor", "service", "http"), ("carrier", "flag", "SF")):
        column = pl.read_parquet(parties.tables[party].path)[f"{feature}_{value}"]
        assert ((column == 1) == (connections[feature] == value)).all()


def test_numeric_features_are_written_as_they_are(parties: KddParties, connections: pl.DataFrame) -> None:
    for party, features in NUMERIC.items():
        written = pl.read_parquet(parties.tables[party].path)
        assert written.select(*features).equals(connections.select(*features))


def test_all_parties_name_the_same_rows_in_the_same_order(parties: KddParties) -> None:
    ids = [pl.read_parquet(table.path)["connection_id"] for table in parties.tables.values()]
    assert ids[0].n_unique() == 145_586
    assert ids[0].equals(ids[1])
    assert ids[0].equals(ids[2])


def test_of_the_columns_between_0_and_1_only_su_attempted_leaves_its_bounds(parties: KddParties) -> None:
    bounds = np.array([bound for table in parties.tables.values() for bound in table.usual_bounds.values()])
    unit = (bounds == (0, 1)).all(axis=1)
    outside = ((parties.pooled < bounds[:, 0]) | (parties.pooled > bounds[:, 1])).mean(axis=0)
    names = [name for table in parties.tables.values() for name in table.usual_bounds]
    assert {names[i] for i in np.flatnonzero(unit & (outside > 0))} == {"su_attempted"}
    assert outside.max() < 0.02, "bounds that clip many rows would change what the demo finds"


def test_a_party_reads_back_its_columns_of_the_pooled_matrix(tmp_path: Path) -> None:
    made = write_kdd_parties(tmp_path, rows=1000)
    start = 0
    digests = set()
    for party, table in made.tables.items():
        config = PartyConfig.model_validate(
            {
                "name": party,
                "federation": "network",
                "data_dir": tmp_path,
                "tls": {"authority": "ca.pem", "certificate": "c.pem", "key": "k.pem"},
                "coordinator": {"name": "coordinator", "address": "127.0.0.1:7100"},
                "peers": {"south": "127.0.0.1:2", "west": "127.0.0.1:3"},
                "tables": [
                    {
                        "name": table.name,
                        "path": table.path,
                        "bounds": table.bounds,
                        "id_column": table.id_column,
                        "on_request": table.on_request,
                    }
                ],
            }
        )
        read = load_table(config, JobInput(party=party, table="connections"))
        assert np.array_equal(read.values, made.pooled[:, start : start + WIDTHS[party]])
        start += WIDTHS[party]
        digests.add(read.ids_digest)
    assert len(digests) == 1


def test_fewer_rows_are_spread_over_the_whole_file(tmp_path: Path) -> None:
    made = write_kdd_parties(tmp_path, rows=3)
    ids = pl.read_parquet(made.tables["host"].path)["connection_id"].to_list()
    assert ids == ["c000000", "c072792", "c145585"]


@pytest.mark.parametrize("rows", [0, -1, 145_587])
def test_an_impossible_number_of_rows_is_refused(tmp_path: Path, rows: int) -> None:
    with pytest.raises(ValueError, match=f"rows: {rows} is not between 1 and 145586"):
        write_kdd_parties(tmp_path, rows=rows)


def test_bounds_are_ordered_and_name_no_column_twice() -> None:
    names = [name for party in NUMERIC for name in bounds_of(party)]
    assert len(names) == len(set(names)) == 118
    assert all(low < high for party in NUMERIC for low, high in bounds_of(party).values())


def test_the_example_job_is_about_these_parties() -> None:
    job = Job.from_toml((Path(__file__).parents[4] / "examples" / "pca.toml").read_text())
    assert job.members == tuple(NUMERIC)
    assert set(job.parameters["norm_bounds"]) == set(NUMERIC)
    assert sum(bound**2 for bound in job.parameters["norm_bounds"].values()) <= job.parameters["row_norm"] ** 2


def test_columns_on_request_come_from_the_label_and_the_categories(
    parties: KddParties, connections: pl.DataFrame
) -> None:
    (protocol,), (is_attack,) = parties.on_request["carrier"].T, parties.on_request["monitor"].T
    assert (is_attack == (connections["label"] != "normal").to_numpy()).all()
    assert [CATEGORIES["protocol_type"][int(code)] for code in protocol[:1000]] == list(
        connections["protocol_type"][:1000]
    )
    assert parties.on_request["host"].shape == (145_586, 0)


def test_a_job_that_names_columns_gets_them_in_its_order(parties: KddParties) -> None:
    monitor, carrier = parties.in_memory({"monitor": ["is_attack", "count"], "carrier": ["protocol"]})
    assert [column.name for column in monitor.schema.columns] == ["is_attack", "count"]
    assert (monitor.values[:, 0] == parties.on_request["monitor"][:, 0]).all()
    assert (carrier.schema.columns[0].lower, carrier.schema.columns[0].upper) == (0, 2)
