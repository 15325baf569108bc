"""Tables of ratings: what is declared of them, and what is read of them."""

import gzip

import polars as pl
import pytest
from pydantic import ValidationError

from analyses.job.job import JobInput
from analyses.job.ratings import digest_of_items
from analyses.job.schema import BlockSchema
from analyses.power_moments import protocol as moments
from party.config import PartyConfig
from party.tables.ratings_config import RatingsTableConfig
from party.tables.table import TableError, UnusableTableError, describe_table, load_table
from service.files import name_list

FILMS = ("alien", "brazil", "casablanca")
CSV = "who,film,stars,note\nann,brazil,4,x\nbob,alien,9.5,y\nann,alien,1,z\nbob,dune,2,x\n"
ASKED = JobInput(party="north", table="visits")
RATINGS = {
    "kind": "ratings",
    "user": "who",
    "item": "film",
    "rating": "stars",
    "items": FILMS,
    "users": 10,
    "ratings_per_user": 2,
    "bounds": {"stars": [1, 5]},
}


@pytest.fixture
def make(make_config):
    return lambda **changes: make_config(**{**RATINGS, **changes})


def write(folder, text=CSV, name="visits.csv"):
    path = folder / name
    if path.suffix == ".parquet":
        pl.read_csv(text.encode()).write_parquet(path)
    else:
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.parquet"])
def test_ratings_are_read_in_the_order_of_the_table_with_unknown_items_marked(make, tmp_path, name):
    write(tmp_path, name=name)
    table = load_table(make(path=name), ASKED)
    assert table.n_rows == 4
    assert table.values.shape == (4, 0)
    assert table.ratings.user_names == ("ann", "bob")
    assert table.ratings.users.tolist() == [0, 1, 0, 1]
    assert table.ratings.items.tolist() == [1, 0, 0, -1]
    assert table.ratings.values.tolist() == [4.0, 9.5, 1.0, 2.0]


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_users_stand_in_the_order_of_their_characters_wherever_they_first_appear(make, tmp_path, name):
    users = ["z", "\N{GRINNING FACE}", "10", "9", "\uffee", "Z", "\xe9", "9", "z", "a z", "\xe9"]
    write(tmp_path, "who,film,stars\n" + "".join(f"{user},alien,{1 + k % 5}\n" for k, user in enumerate(users)), name)
    ratings = load_table(make(path=name), ASKED).ratings
    assert ratings.user_names == tuple(sorted(set(users)))
    assert [ratings.user_names[place] for place in ratings.users] == users
    assert ratings.values.tolist() == [1.0 + k % 5 for k in range(len(users))]


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_numbered_items_are_whole_numbers_below_their_declared_number(make, tmp_path, name):
    write(tmp_path, "who,film,stars\n7,0,1\n8,2,2\n7,3,3\n7,-1,4\n", name)
    table = load_table(make(path=name, items=3), ASKED)
    assert table.ratings.items.tolist() == [0, 2, -1, -1]
    assert table.ratings.user_names == ("7", "8")


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_items_and_users_are_the_same_in_every_spelling_and_type(make, tmp_path, name):
    write(tmp_path, "who,film,stars\n7.0,0.0,1\n8.0,2.0,2\n7.0,1.0,3\n", name)
    ratings = load_table(make(path=name, items=3), ASKED).ratings
    assert ratings.items.tolist() == [0, 2, 1]
    assert ratings.user_names == ("7", "8")
    assert load_table(make(path=name, items=["2", "0", "1.0"]), ASKED).ratings.items.tolist() == [1, 0, 2]


def test_a_user_in_two_spellings_is_one(make, tmp_path):
    write(tmp_path, "who,film,stars\n7,alien,1\n7.0,brazil,2\n 7,dune,3\nann\u200b,alien,1\n")
    assert load_table(make(), ASKED).ratings.user_names == ("7", "ann")


@pytest.mark.parametrize("text", ['"1,5"', '"1,234"', "$5"])
def test_a_rating_that_can_mean_two_things_rules_the_table_out(make, tmp_path, text):
    write(tmp_path, f"who,film,stars\nann,alien,{text}\n")
    with pytest.raises(UnusableTableError):
        load_table(make(), ASKED)


def test_text_among_numbered_items_is_of_no_known_item(make, tmp_path):
    write(tmp_path, "who,film,stars\n7,0,1\n8,x,2\n")
    assert load_table(make(items=3), ASKED).ratings.items.tolist() == [0, -1]


def test_the_public_schema_holds_declarations_only_and_reads_nothing(make):
    schema = describe_table(make(path="missing.csv"), ASKED)
    assert schema.columns == ()
    assert schema.ratings.model_dump() == {
        "items": 3,
        "items_digest": digest_of_items(FILMS),
        "users": 10,
        "ratings_per_user": 2,
        "lower": 1.0,
        "upper": 5.0,
    }
    assert "alien" not in schema.canonical_json()
    assert BlockSchema.model_validate_json(schema.canonical_json()) == schema


def test_the_schema_of_any_other_table_does_not_show_that_there_are_ratings():
    assert "ratings" not in BlockSchema(party="north").canonical_json()


def test_lists_that_differ_in_order_or_in_kind_have_different_digests():
    assert len({digest_of_items(items) for items in (("a", "b"), ("b", "a"), ("ab",), 2, ("0", "1"))}) == 5


def test_a_job_cannot_name_columns_of_ratings(make):
    with pytest.raises(TableError, match="must name no columns"):
        describe_table(make(), JobInput(party="north", table="visits", columns=("stars",)))


@pytest.mark.parametrize(
    "text",
    [
        "who,film,stars\nann,alien,nan\n",
        "who,film,stars\nann,alien,inf\n",
        "who,film,stars\nann,alien,-inf\n",
        "who,film,stars\nann,alien,\n",
        "who,film,stars\nann,alien,x\n",
        "who,film,stars\n,alien,1\n",
        "who,film,stars\nann,,1\n",
        "who,film,stars\n",
        "who,stars\nann,1\n",
    ],
    ids=["nan", "infinite", "negative infinite", "no rating", "text", "no user", "no item", "no rows", "no column"],
)
def test_what_can_be_no_rating_rules_the_table_out_in_the_same_public_words(make, tmp_path, text):
    write(tmp_path, text)
    with pytest.raises(UnusableTableError) as caught:
        load_table(make(), ASKED)
    assert str(caught.value) == (
        "table 'visits' of party 'north' cannot be used; its owner finds the reason in the log of the service"
    )
    assert not any(word in caught.value.detail for word in ("ann", "alien", "nan"))


def test_a_missing_file_and_rows_outside_the_declared_range_rule_it_out_too(make, tmp_path):
    with pytest.raises(UnusableTableError):
        load_table(make(), ASKED)
    write(tmp_path)
    with pytest.raises(UnusableTableError):
        load_table(make(rows=[10, 20]), ASKED)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "grades"}, "kind: must be 'ratings'"),
        ({"items": ["alien", "alien"]}, "appears more than once"),
        ({"items": ["1", "1.0"]}, "'1' and '1.0' are one"),
        ({"items": []}, "items"),
        ({"items": 0}, "items"),
        ({"items": ["a\nb"]}, "not printable"),
        ({"users": 0}, "users"),
        ({"ratings_per_user": 0}, "ratings_per_user"),
        ({"features": [[1.0]]}, "features: 1 rows of features for"),
        ({"items": 2, "features": [[1.0], [1.0, 2.0]]}, "features: item 1 has 2 features, and item 0 has 1"),
        ({"items": 2, "features": [[1.0], [float("nan")]]}, "features"),
        ({"items": 2, "features": [[1.0], [1e9]]}, "features"),
        ({"items": 2, "features": ["1, 2", "1, x"]}, "line 2 is not made of numbers and commas"),
        ({"items": 2, "features": {"file": "absent.csv"}}, "absent.csv"),
        ({"user": "film"}, "three different columns"),
        ({"bounds": {"film": [1, 5]}}, "bounds: must be those of the column of ratings"),
        ({"bounds": {"stars": [1, 5], "note": [0, 1]}}, "and of no other"),
        ({"bounds": {"stars": [5, 1]}}, "not below"),
        ({"id_column": "note"}, "names its users, and nothing else"),
        (
            {"first_budget": {"period": "p", "epsilon": 1.0, "delta": 0.1}},
            "must be below 1 / 10, as there may be 10 users",
        ),
    ],
)
def test_a_wrong_declaration_is_refused_by_the_name_of_its_field(make, changes, what):
    with pytest.raises(ValidationError, match=what):
        make(**changes)


def test_it_is_one_kind_of_table_beside_the_others(make):
    config = make()
    assert isinstance(config, PartyConfig)
    assert isinstance(config.tables[0], RatingsTableConfig)
    assert config.tables[0].item_names == FILMS
    assert make(items=3).tables[0].item_names == ("0", "1", "2")


def test_an_analysis_of_columns_refuses_ratings(make):
    from analyses.job.job import Job, JobError

    job = Job.model_validate(
        {
            "analysis": "moments",
            "inputs": [{"party": p, "table": "visits"} for p in ("north", "south", "west")],
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        }
    )
    schema = describe_table(make(), ASKED)
    schemas = [schema.model_copy(update={"party": p}) for p in ("north", "south", "west")]
    with pytest.raises(JobError, match="north must bring at least one column"):
        moments.plan(job, schemas)


@pytest.mark.parametrize("text", ["alien\nbrazil\ncasablanca\n", "\ufeff alien \r\nbrazil\r\ncasablanca"])
def test_items_may_lie_in_a_file_beside_the_configuration(make, tmp_path, text):
    (tmp_path / "items.txt").write_bytes(text.encode())
    (table,) = make(items={"file": "items.txt"}).tables
    assert table.item_names == FILMS
    assert table.schema_of_ratings == make().tables[0].schema_of_ratings


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"alien\n\nbrazil\n", "items: .*items.txt: line 2 is blank; each line is one name"),
        (b"", "line 1 is blank"),
        (b"alien\n\xff\n", "items.txt: cannot be read: not UTF-8 text, line 2"),
        (b"1\n1.0\n", "'1' and '1.0' are one"),
        (b"a\tb\n", "not printable"),
        (b"a\n" * (name_list.MAX_LIST_BYTES // 2 + 1), "it is longer than 256 MiB"),
        (None, "items.txt: there is no such file"),
    ],
    ids=["blank", "empty", "encoding", "twice", "unprintable", "long", "absent"],
)
def test_a_file_of_items_that_cannot_be_used_is_refused_with_its_name_and_line(make, tmp_path, text, what):
    if text is not None:
        (tmp_path / "items.txt").write_bytes(text)
    with pytest.raises(ValidationError, match=what):
        make(items={"file": "items.txt"})


def test_a_list_in_a_file_has_as_many_items_as_one_in_the_configuration(tmp_path):
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    assert name_list.read_names(tmp_path / "items.txt", 3) == ("a", "b", "c")
    with pytest.raises(name_list.TextFileError, match="it has 3 lines, and a list may have 2 names"):
        name_list.read_names(tmp_path / "items.txt", 2)
    with pytest.raises(name_list.TextFileError, match="it is no regular file"):
        name_list.read_names(tmp_path, 2)


@pytest.mark.parametrize("items", ["items.txt", {}, {"path": "items.txt"}, {"file": 3}])
def test_a_section_of_items_names_a_file(make, items):
    with pytest.raises(ValidationError, match=r"write how many there are, the list of their names, or \{ file ="):
        make(items=items)
