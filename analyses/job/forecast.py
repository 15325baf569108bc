"""What can be said of the errors of a result before anything is spent: it follows from the public plan alone.

A plan fixes the noise, and owners declare bounds and numbers of rows. So the standard errors of a result are known, or
nearly so, before a job runs (`Forecast`), and so is whether its noise exceeds every answer that there could be
(`Signal`): such a job is refused when it is planned (`analyses.job.infeasible`), unless it says `anyway`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil, inf
from statistics import NormalDist
from typing import Any

from analyses.job.job import JobError

NORMAL_95 = 1.959964
"""Standard errors of half of an interval that holds in 19 of 20 cases, for normal errors."""

ALL_OF = 0.05
"""How often at least one of several numbers may lie outside of what is to hold of all of them at once."""

MAX_SHOWN = 12
"""Largest number of quantities that are shown as text; JSON has all of them."""


def deviations_of_all(n: int) -> float:
    """Return the standard errors that none of n normal numbers exceeds in size, in 19 of 20 cases (Bonferroni)."""
    return NormalDist().inv_cdf(1 - ALL_OF / (2 * max(n, 1)))


_RUNGS_PER_TENFOLD = 90
_STRIDE = 27
"""Rungs of about a doubling: 10 to 99 are 90 rungs of a tenfold."""

_MOST_STRIDES = 24
"""Doublings that a search goes up or down: 16 million times what it began with."""


def least_enough(start: float, is_enough: Callable[[float], bool | None]) -> float | None:
    """Return the least number of two digits that is enough; None where none is, as far as one can be asked for.

    Args:
        start: number to begin with, positive; it can be asked for.
        is_enough: whether a number is enough, which larger ones are too; None where it cannot be asked for.
    """
    from dp.cost.calibrate import last_enough  # commands that print a forecast load no numerics

    def at(rung: int) -> float:
        tenfold, digits = divmod(rung, _RUNGS_PER_TENFOLD)
        return float(f"{10 + digits}e{tenfold}")

    first = next(rung for rung in range(-4000, 4000) if at(rung) >= start * (1 - 1e-12))
    lacking = enough = first
    if is_enough(at(first)):
        for _ in range(_MOST_STRIDES):
            lacking -= _STRIDE
            if not is_enough(at(lacking)):
                break
            enough = lacking
        else:
            return at(enough)
        return at(last_enough(lambda rung: bool(is_enough(at(rung))), lacking=lacking, enough=enough))
    for _ in range(_MOST_STRIDES):
        enough += _STRIDE
        if is_enough(at(enough)) is not False:
            break
        lacking = enough
    else:
        return None
    found = at(last_enough(lambda rung: is_enough(at(rung)) is not False, lacking=lacking, enough=enough))
    return found if is_enough(found) else None


@dataclass(frozen=True)
class Signal:
    """The noise of a plan beside the largest answer that is publicly possible, in one unit.

    The rule is conservative: `largest` is what bounds and declared rows admit, whatever the tables hold, and `noise` is
    no more than what will be there. A job of which this says that it is infeasible shows nothing; one of which it does
    not may still show nothing.

    Attributes:
        what: the noise, in words; of the number that is seen best where there are several.
        noise: its standard deviation or, for a matrix, about its spectral norm.
        whole: the largest answer, in words.
        largest: its size.
        unit: unit of both, in words.
        rows_power: the power of the number of rows by which largest / noise grows: 1 where the noise does not depend
            on it, 1/2 where each row adds noise of its own.
        instead: what else would help, as "method 'mpc'"; empty where nothing is known.
    """

    what: str
    noise: float
    whole: str
    largest: float
    unit: str
    rows_power: float = 1.0
    instead: str = ""

    @property
    def is_infeasible(self) -> bool:
        """Whether the noise is at least as large as every answer that there can be."""
        return not self.noise < self.largest

    @property
    def in_words(self) -> str:
        """Both sizes, in one clause."""
        return (
            f"{self.what} is {self.noise:.3g} {self.unit}, while {self.whole} is {self.largest:.3g} {self.unit}, so no "
            "answer could be seen in the noise"
        )


@dataclass(frozen=True)
class Quantity:
    """A number of the result, or several alike.

    Attributes:
        name: in words.
        unit: in words.
        standard_error: expected under the assumptions, of the noise; with as many rows as are declared at most, where
            that matters.
        at_fewest_rows: the same with as few rows as are declared, where that differs.
        best_case, bad_case: the standard error in the best and in the bad case that the assumptions state; None where
            `standard_error` is all that there is.
        seen_from: values below this cannot be told from noise; None where the standard error says all.
        least, largest: between which the number lies by bounds and declared rows; None where nothing bounds it.
    """

    name: str
    unit: str
    standard_error: float
    at_fewest_rows: float | None = None
    seen_from: float | None = None
    least: float | None = None
    largest: float | None = None
    best_case: float | None = None
    bad_case: float | None = None

    @property
    def best_half_width(self) -> float:
        """Half of the width of an interval that holds in 19 of 20 cases, in the best case."""
        return NORMAL_95 * (self.standard_error if self.best_case is None else self.best_case)

    @property
    def half_width(self) -> float:
        """The same in the bad case: what an owner approves a job on."""
        return NORMAL_95 * (self.standard_error if self.bad_case is None else self.bad_case)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data, with both half-widths of 95 %."""
        return asdict(self) | {"half_width": self.half_width, "best_half_width": self.best_half_width}

    @property
    def in_words(self) -> str:
        """All of it in one line."""
        if self.bad_case is None:
            known = f"standard error {self.standard_error:.3g}, 95 % within {self.half_width:.3g} ({self.unit})"
        else:
            known = (
                f"95 % within {self.half_width:.3g} in a bad case, {self.best_half_width:.3g} in the best ({self.unit})"
            )
        found = f"{self.name}: {known}"
        if self.at_fewest_rows is not None:
            least, largest = self.least, self.largest
            is_lost = least is not None and largest is not None and self.at_fewest_rows > largest - least
            found += f"; {'useless' if is_lost else f'standard error {self.at_fewest_rows:.3g}'} with the fewest rows"
        if self.seen_from is not None:
            found += f"; seen from {self.seen_from:.3g}"
        if self.least is not None and self.largest is not None:
            found += f"; possible: {self.least:.6g} to {self.largest:.6g}"
        return found


@dataclass(frozen=True)
class Forecast:
    """The errors of a result that are expected before a job runs, from public facts alone.

    Attributes:
        quantities: whose errors can be forecast.
        assumptions: under which, in whole sentences; noise is all that is counted unless one of them says more.
        not_forecast: what is left out and why, in whole sentences.
        infeasible: why no answer could be seen in the noise, and what would help; empty for all other jobs.
    """

    quantities: tuple[Quantity, ...] = ()
    assumptions: tuple[str, ...] = ()
    not_forecast: tuple[str, ...] = ()
    infeasible: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data; see `Quantity.as_dict`."""
        return {
            "quantities": [one.as_dict() for one in self.quantities],
            "assumptions": list(self.assumptions),
            "not_forecast": list(self.not_forecast),
            "infeasible": self.infeasible,
        }

    def lines(self) -> list[str]:
        """Return it as lines of text for people."""
        return lines_of_forecast(self.as_dict())


@dataclass(frozen=True)
class Wanted:
    """The error that an analyst wants a result to have at most.

    Attributes:
        half_width: half of a 95 % interval in the bad case, in the unit of the quantity.
        of: beginning of the quantity's name; the first one that is forecast where it is empty.
    """

    half_width: float
    of: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.half_width < inf:
            raise JobError(f"within: {self.half_width:g} is no error that can be wanted; it is above 0")

    def quantity_in(self, forecast: Forecast) -> Quantity:
        """Return the quantity that is meant.

        Raises:
            JobError: the forecast has none; the text names those that it has.
        """
        names = [one.name for one in forecast.quantities]
        for one in forecast.quantities:
            if one.name.startswith(self.of):
                return one
        why = f"it has {', '.join(names)}" if names else " ".join(forecast.not_forecast) or "it has none"
        raise JobError(f"of: the forecast has no {self.of or 'quantity'}; {why}")

    def is_met(self, forecast: Callable[[], Forecast]) -> bool | None:
        """Return whether a forecast has this error or a smaller one; None where it cannot be made.

        Args:
            forecast: makes it.
        """
        try:
            found = forecast()
        except JobError:
            return None
        if found.infeasible or not found.quantities:
            return False
        return self.quantity_in(found).half_width <= self.half_width


@dataclass(frozen=True)
class Enough:
    """What would bring a wanted error about.

    Attributes:
        name, unit: fields of the quantity.
        wanted: half of a 95 % interval.
        now: the same of what is planned.
        epsilon: the least one with which the error is met, of two digits; None where none is that may be asked for.
        members: the fewest members with which it is met at the epsilon of the question, of two digits; None where no
            number is, where they do not make the error smaller, or where a job has rows that are declared.
        counts_members: whether more members make the error smaller, as of a share or mean over devices.
    """

    name: str
    unit: str
    wanted: float
    now: float
    epsilon: float | None
    members: int | None = None
    counts_members: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it as lines of text for people."""
        met = [] if self.epsilon is None else [f"epsilon {self.epsilon:g}"]
        met += [] if self.members is None else [f"{self.members:,} members that answer"]
        helps = f"needs {' or '.join(met)}" if met else "is not reached by any epsilon that can be asked for"
        if self.counts_members and not met:
            helps += ", nor by more members"
        return [
            f"{self.name}: 95 % within {self.wanted:g} in a bad case {helps}; planned is {self.now:.3g} ({self.unit})"
        ]


def enough_for(
    wanted: Wanted,
    planned: Forecast,
    epsilon: float,
    at_epsilon: Callable[[float], Forecast],
    n_members: int | None = None,
    of_members: Callable[[int], Forecast] | None = None,
) -> Enough:
    """Return what would bring a wanted error about, of a job or of a question to devices.

    Args:
        wanted: the error.
        planned: forecast of what is planned.
        epsilon: its epsilon.
        at_epsilon: makes the forecast with another one; raises JobError where that cannot be asked for.
        n_members: how many members answer what is planned, where that can be chosen.
        of_members: makes the forecast with other numbers of members.

    Raises:
        JobError: there is no such quantity.
    """
    quantity, members = wanted.quantity_in(planned), None
    least = least_enough(epsilon, lambda one: wanted.is_met(lambda: at_epsilon(one)))
    helps = False
    if n_members is not None and of_members is not None and _falls(wanted, quantity, n_members, of_members):
        helps, forecast_of = True, of_members
        found = least_enough(n_members, lambda n: wanted.is_met(lambda: forecast_of(ceil(n))))
        members = None if found is None else ceil(found)
    names = (quantity.name, quantity.unit, wanted.half_width, quantity.half_width)
    return Enough(*names, least, members, counts_members=helps)


def _falls(wanted: Wanted, planned: Quantity, n_members: int, of_members: Callable[[int], Forecast]) -> bool:
    """Return whether an error is larger with half of the members: that of a mean or share is, that of a count not."""
    try:
        fewer = of_members(max(1, n_members // 2))
        return not fewer.quantities or wanted.quantity_in(fewer).half_width > planned.half_width * (1 + 1e-6)
    except JobError:
        return False


def lines_of_forecast(forecast: dict[str, Any]) -> list[str]:
    """Return the JSON data of a forecast as lines of text: `MAX_SHOWN` quantities at most."""
    quantities = forecast["quantities"]
    lines = [
        Quantity(**{key: value for key, value in one.items() if not key.endswith("half_width")}).in_words
        for one in quantities[:MAX_SHOWN]
    ]
    if len(quantities) > MAX_SHOWN:
        lines.append(f"and {len(quantities) - MAX_SHOWN} more; --format json has them all")
    lines += [f"assumed: {sentence}" for sentence in forecast["assumptions"]]
    lines += [f"not forecast: {sentence}" for sentence in forecast["not_forecast"]]
    if forecast["infeasible"]:
        lines.append(f"INFEASIBLE: {forecast['infeasible']}")
    return lines
