"""Tables with a label as three parties hold them: categories one-hot, labels with one party, public bounds.

Bounds are constants from what the columns mean; none was computed from the data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.datasets.bundled import read
from bench.datasets.order import trusted_order
from demo.data_sets.kdd import CATEGORICAL as KDD_CATEGORICAL
from demo.data_sets.kdd import CATEGORIES as KDD_CATEGORIES
from demo.data_sets.kdd import NORM_BOUNDS as KDD_NORM_BOUNDS
from demo.data_sets.kdd import NUMERIC as KDD_NUMERIC

Bounds = tuple[float, float]

MIN_ROWS = 1000
"""What owners declare publicly; the most is, for comparison with others, what there is."""

# The values of the categories, as the census bureau's description of the data lists them; "?" is unknown.
_ADULT_VALUES = """
workclass: ? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay
education: 10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters Preschool
 Prof-school Some-college
marital_status: Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed
occupation: ? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners Machine-op-inspct
 Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support Transport-moving
relationship: Husband Not-in-family Other-relative Own-child Unmarried Wife
race: Amer-Indian-Eskimo Asian-Pac-Islander Black Other White
sex: Female Male
native_country: ? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany
 Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico
 Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand
 Trinadad&Tobago United-States Vietnam Yugoslavia
"""
_ADULT_CATEGORIES: Mapping[str, Sequence[str]] = {
    feature: values.split()
    for feature, values in (line.split(":") for line in _ADULT_VALUES.strip().replace("\n ", " ").splitlines())
}
_ADULT_CATEGORICAL: Mapping[str, Sequence[str]] = {
    "employer": ("workclass", "occupation"),
    "registry": ("marital_status", "relationship", "race", "sex", "native_country"),
    "bank": ("education",),
}
_ADULT_NUMERIC: Mapping[str, Mapping[str, Bounds]] = {
    "employer": {"hours_per_week": (1, 99)},  # the form has two digits
    "registry": {"age": (17, 90)},  # adults; top-coded
    "bank": {
        "education_num": (1, 16),  # the place of `education` in its order
        "capital_gain": (0, 10000),  # more counts as "large", whatever the amount
        "capital_loss": (0, 5000),
    },
}
# Each category is one column of 1. The rest is room for the numbers: two fifths of the range of hours and ages, and
# half a length for education and capital; longer blocks are shortened.
_ADULT_NORM_BOUNDS = {"employer": 2.2**0.5, "registry": 5.2**0.5, "bank": 2.0**0.5}


@dataclass(frozen=True)
class LabelledTables:
    """A table for learning and one for testing, as three parties hold them.

    Attributes:
        name: of the data set.
        label: "party.column".
        norm_bounds: party to its share of the row norm, public; none where a job is to leave it out.
        training, testing: the parties' tables, in the order of the joint table; the label is the last column of its
            party.
    """

    name: str
    label: str
    norm_bounds: Mapping[str, float]
    training: Sequence[Table] = field(repr=False)
    testing: Sequence[Table] = field(repr=False)

    @property
    def row_norm(self) -> float:
        """Room for all blocks and the intercept, a little rounded up."""
        return float(np.sqrt(sum(bound**2 for bound in self.norm_bounds.values()) + 1) + 1e-6)

    def job(self, *, epsilon: float, view: str = "coordinator", delta: float = 1e-5, **parameters: object) -> Job:
        """Return a job on these tables."""
        return Job.model_validate(
            {
                "analysis": "logistic-regression",
                "inputs": [{"party": t.schema.party, "table": self.name} for t in self.training],
                **trusted_order(t.schema for t in self.training),
                "privacy": {"epsilon": epsilon, "delta": delta, "view": view},
                "parameters": {
                    "label": self.label,
                    "max_rows": self.training[0].n_rows,
                    **({"row_norm": self.row_norm, "norm_bounds": dict(self.norm_bounds)} if self.norm_bounds else {}),
                    **parameters,
                },
            }
        )


def adult() -> LabelledTables:
    """Return the census data of 1994: does somebody earn more than 50,000 dollars? 32,561 and 16,281 rows."""

    def split(name: str) -> list[Table]:
        rows = read(name)
        label = (rows["income"] == ">50K").to_numpy()
        return _tables(rows, _ADULT_NUMERIC, _ADULT_CATEGORICAL, _ADULT_CATEGORIES, ("bank", "earns_over_50k", label))

    return LabelledTables("adult", "bank.earns_over_50k", _ADULT_NORM_BOUNDS, split("adult_train"), split("adult_test"))


def nsl_kdd() -> LabelledTables:
    """Return network connections: is one an attack? 25,192 and 22,544 rows; bounds as in `demo.data_sets.kdd`."""

    def split(name: str) -> list[Table]:
        rows = read(name)
        label = (rows["label"] != "normal").to_numpy()
        return _tables(rows, KDD_NUMERIC, KDD_CATEGORICAL, KDD_CATEGORIES, ("monitor", "is_attack", label))

    training, testing = split("nsl_kdd_train20pct"), split("nsl_kdd_test")
    return LabelledTables("nsl-kdd", "monitor.is_attack", KDD_NORM_BOUNDS, training, testing)


_CALIFORNIA: Mapping[str, Mapping[str, Bounds]] = {
    "survey": {"longitude": (-125, -114), "latitude": (32, 42), "housing_median_age": (1, 60)},
    "census": {"total_rooms": (0, 10_000), "total_bedrooms": (0, 2000), "population": (0, 10_000)},
    "tax": {"households": (0, 2000), "median_income": (0, 15)},
}
_EARNINGS: Mapping[str, Mapping[str, Bounds]] = {
    "registry": {"age": (16, 70)},
    "school": {"education": (0, 20)},
    "employer": {},
}
_EARNINGS_CATEGORIES: Mapping[str, Sequence[str]] = {
    "gender": ("female", "male"),
    "region": ("Midwest", "Northeast", "South", "West"),
}


def california() -> LabelledTables:
    """Return districts of 1990: is the median house worth more than 200,000 dollars? 8 columns, no norm bounds."""
    rows = read("california_housing").fill_null(0)
    label = (rows["median_house_value"] > 200_000).to_numpy()
    return _halved("california", rows, _CALIFORNIA, {}, {}, ("tax", "is_dear", label))


def earnings() -> LabelledTables:
    """Return workers of 2012: does somebody earn more than 20 dollars an hour? 8 columns, no norm bounds."""
    rows, by = read("cpssw8"), {"registry": ("gender", "region"), "school": (), "employer": ()}
    label = (rows["earnings"] > 20).to_numpy()
    return _halved("earnings", rows, _EARNINGS, by, _EARNINGS_CATEGORIES, ("employer", "earns_over_20", label))


_AGES = tuple(f"{low}_to_{low + 5}" for low in range(15, 90, 5))
_HOUSEHOLD = {"age_head": _AGES, "age_spouse": ("none", *_AGES), "marital_filing_status": ("1", "2", "4")}
_UNITS: Mapping[str, Mapping[str, Bounds]] = {
    "registry": {"persons": (0, 8)},
    "bank": {"interest": (0, 10_000), "dividends": (0, 10_000), "pensions_annuities": (0, 50_000)},
    "office": {
        "social_security": (0, 50_000),
        "unemployment_comp": (0, 20_000),
        "wage_spouse": (0, 100_000),
        "self_employment": (0, 100_000),
    },
}
# Three categories of the registry are one column of 1 each; a quarter for the persons, one length for all money.
_UNIT_NORM_BOUNDS = {"registry": 3.25**0.5, "bank": 1.0, "office": 1.0}


def employment() -> LabelledTables:
    """Return tax units of the CPS: has the head any wages? 280,005 rows.

    Raises:
        FileNotFoundError: this file is not bundled; MOIETY_DATA names the folder that has `cps_income`.
    """
    units = read("cps_income/tax_units")
    bands = [
        pl.when(pl.col(age) == 0)
        .then(pl.lit("none"))
        .otherwise(pl.format("{}_to_{}", low := pl.col(age).clip(upper_bound=89) // 5 * 5, low + 5))
        .alias(age)
        for age in ("age_head", "age_spouse")
    ]
    rows = units.with_columns(*bands, pl.col("marital_filing_status").cast(pl.String))
    label = ("office", "has_wages", (units["wage_head"] > 0).to_numpy())
    found = _halved("cps-employment", rows, _UNITS, {"registry": tuple(_HOUSEHOLD)}, _HOUSEHOLD, label)
    return replace(found, norm_bounds=_UNIT_NORM_BOUNDS)


def _halved(
    name: str,
    rows: pl.DataFrame,
    numeric: Mapping[str, Mapping[str, Bounds]],
    categorical: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]],
    label: tuple[str, str, NDArray[np.bool_]],
) -> LabelledTables:
    """Return three quarters of the rows for learning and the others for testing."""
    order = np.random.default_rng(0).permutation(len(rows))
    cut = len(rows) * 3 // 4
    by_party = {party: categorical.get(party, ()) for party in numeric}
    parts = [
        _tables(rows[chosen], numeric, by_party, categories, (label[0], label[1], label[2][chosen]))
        for chosen in (order[:cut], order[cut:])
    ]
    return LabelledTables(name, f"{label[0]}.{label[1]}", {}, *parts)


def _tables(
    rows: pl.DataFrame,
    numeric: Mapping[str, Mapping[str, Bounds]],
    categorical: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]],
    label: tuple[str, str, NDArray[np.bool_]],
) -> list[Table]:
    tables = []
    for party, bounds_of in numeric.items():
        columns = [ColumnSchema(name=name, lower=low, upper=high) for name, (low, high) in bounds_of.items()]
        values = [rows[name].to_numpy() for name in bounds_of]
        for feature in categorical[party]:
            for value in categories[feature]:
                columns.append(ColumnSchema(name=f"{feature}_{value}", lower=0, upper=1))
                values.append((rows[feature] == value).to_numpy())
        if party == label[0]:
            columns.append(ColumnSchema(name=label[1], lower=0, upper=1))
            values.append(label[2])
        block = np.column_stack([np.asarray(column, dtype=np.float64) for column in values])
        schema = BlockSchema(party=party, columns=tuple(columns), rows=(min(MIN_ROWS, len(block)), len(block)))
        tables.append(Table(schema, block))
    return tables
