"""Terms of released columns, sums and products of them, and their moments as far as the release holds those.

A term is a polynomial in columns: `bank.age^2`, `bank.age*clinic.risk`, `clinic.risk=middle + clinic.risk=high`,
`0.5*bank.cost - shop.cost`, and `mid(clinic.age)`, the middle of the interval that a value `18..65` of a category says.
The sum over rows of a product is an entry of the second moments wherever its factors divide into two released columns,
each of which may be a product itself (`ColumnSchema.factors`). A yes or no, and a value of a category, is its own
square, so it may be a factor of both; the product of two values of one category is 0.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product

import numpy as np

from analyses.job.column_names import POWER, spelled
from analyses.kept_moments.answer import AnswerError, Floats
from analyses.kept_moments.models.population import is_yes_or_no
from analyses.kept_moments.synthetic.sources import bin_of
from analyses.second_moments.released import ReleasedMoments

Monomial = tuple[str, ...]
"""Names of columns, one for each time that it is a factor, in order; empty for 1."""

Polynomial = dict[Monomial, float]

_NAMED = 3  # sums that a refusal names

MAX_DEGREE = 8
"""Most factors of a product whose sum is looked for."""

_SUM = re.compile(r"\s+([+-])\s+")
_MIDDLE = re.compile(r"mid\((.+)\)")


@dataclass(frozen=True)
class Term:
    """A column of a model.

    Attributes:
        name: what it is called.
        polynomial: what it is, by products of columns.
    """

    name: str
    polynomial: Polynomial


@dataclass(frozen=True)
class Terms:
    """What the products of a release's columns are.

    Attributes:
        moments: the release.
    """

    moments: ReleasedMoments

    @cached_property
    def categories(self) -> dict[str, list[str]]:
        """Category to the released columns of its values, in their order."""
        found = defaultdict[str, list[str]](list)
        for name in self.moments.names:
            if "=" in name and name not in self.moments.factors:
                found[name.partition("=")[0]].append(name)
        return found

    @cached_property
    def marks(self) -> dict[str, str]:
        """Column that holds 0 and 1 alone to the category of which it is a value; a yes or no is one of its own."""
        known = [one for one in self.moments.names if one not in self.moments.factors]
        found = {one: one.partition("=")[0] for one in {*known, *self._factors} if "=" in one}
        return found | {one: one for one in known if "=" not in one and is_yes_or_no(self.moments, one)}

    @cached_property
    def _factors(self) -> frozenset[str]:
        return frozenset(one for factors in self.moments.factors.values() for one in factors)

    @cached_property
    def places(self) -> dict[Monomial, int]:
        """Product to the released column that is it."""
        names, factors = self.moments.names, self.moments.factors
        reduced = [self.reduced(factors.get(name, (name,))) for name in names]
        return {one: at for at, one in reversed(list(enumerate(reduced))) if one is not None} | {(): len(names)}

    @cached_property
    def _scale(self) -> Floats:
        """What the variances of entries by noise follow from, as in `noise_of_products`."""
        return np.asarray(self.moments.to_own @ self.moments.to_own.T, dtype=np.float64)

    def reduced(self, factors: Sequence[str]) -> Monomial | None:
        """Return a product with each mark once; None where it is 0, as of two values of one category."""
        marks = {one for one in factors if one in self.marks}
        if len({self.marks[one] for one in marks}) < len(marks):
            return None
        return tuple(sorted([*marks, *(one for one in factors if one not in marks)]))

    def times(self, *polynomials: Polynomial) -> Polynomial:
        """Return the product of polynomials."""
        found: Polynomial = defaultdict(float)
        for chosen in product(*(one.items() for one in polynomials)):
            reduced = self.reduced([name for monomial, _ in chosen for name in monomial])
            if reduced is not None:
                found[reduced] += float(np.prod([factor for _, factor in chosen]))
        return dict(found)

    def of(self, text: str) -> list[Term]:
        """Return the terms that a text stands for; a category is all its values but the first, in products too.

        Raises:
            AnswerError: a column is not there, or the text is no term.
        """
        text = text.strip()
        pieces = [text] if self._columns(text) else _SUM.split(text)
        if len(pieces) == 1:
            return self._products(text)
        found: Polynomial = defaultdict(float)
        for sign, piece in zip(["+", *pieces[1::2]], pieces[::2], strict=True):
            several = self._products(piece)
            if len(several) != 1:
                raise AnswerError(f"the term {text!r}: {piece!r} is several columns, of which no sum is one")
            for monomial, factor in several[0].polynomial.items():
                found[monomial] += factor if sign == "+" else -factor
        return [Term(text, {one: factor for one, factor in found.items() if factor})]

    def _products(self, text: str) -> list[Term]:
        parts = [text] if self._columns(text) else text.split("*")
        factors = [one for part in parts for one in self._factor(part.strip(), text)]
        found = []
        for chosen in product(*factors):
            polynomial = self.times(*(one.polynomial for one in chosen))
            if polynomial:
                found.append(Term(spelled([one.name for one in chosen]), polynomial))
        if not found:
            raise AnswerError(f"the term {text!r} is 0 in all rows")
        return found

    def _factor(self, text: str, whole: str) -> list[list[Term]]:
        """Return what a factor may be, once for each time that it counts."""
        columns = self._columns(text)
        power = None if columns else POWER.fullmatch(text)
        if power is not None:
            return self._factor(power[1], whole) * int(power[2])
        if columns:
            return [[Term(one, {self.monomial(one): 1.0}) for one in columns]]
        if (inner := _MIDDLE.fullmatch(text)) is not None:
            return [[Term(text, self._middles(inner[1]))]]
        try:
            number = float(text)
        except ValueError:
            known = ", ".join(self.moments.names)
            raise AnswerError(f"the term {whole!r}: the release has no column {text!r}; it has {known}") from None
        if not np.isfinite(number) or not number:
            raise AnswerError(f"the term {whole!r}: {text} is no factor")
        return [[Term(text, {(): number})]]

    def _columns(self, name: str) -> list[str]:
        """Return the columns of a name; none where it is none."""
        if name in self.moments.names or name in self._factors:
            return [name]
        return self.categories.get(name, [])[1:]

    def values_of(self, name: str) -> list[str]:
        """Return the columns of a category's values, released or factors of released ones; none of another column."""
        known = dict.fromkeys([*self.moments.names, *chain.from_iterable(self.moments.factors.values())])
        return [] if name in self.moments.names else [one for one in known if one.startswith(f"{name}=")]

    def monomial(self, name: str) -> Monomial:
        """Return what a column is by its factors."""
        found = self.reduced(self.moments.factors.get(name, (name,)))
        assert found is not None, "no released column is 0 by its name"
        return found

    def _middles(self, name: str) -> Polynomial:
        values = self.categories.get(name, [])
        ends = {one: bin_of(one.partition("=")[2]) for one in values}
        if not values or not any(ends.values()):
            raise AnswerError(f"mid({name}): {name!r} is no category whose values are intervals such as 18..65")
        return {(one,): (end[0] + end[1]) / 2 for one, end in ends.items() if end is not None}

    def sum_of(self, monomial: Monomial) -> list[tuple[int, int, float]] | None:
        """Return the entries of the second moments that are the sum of a product, with weights of sum 1; None: none is.

        Of several entries each counts by the inverse of its variance by noise.
        """
        if len(monomial) > MAX_DEGREE:
            return None
        sides: list[tuple[tuple[int, int], ...]] = [
            ((1, 0), (0, 1), (1, 1)) if one in self.marks else ((1, 0), (0, 1)) for one in monomial
        ]
        found: set[tuple[int, int]] = set()
        for chosen in product(*sides):
            pair = [
                self.places.get(tuple(one for one, is_in in zip(monomial, chosen, strict=True) if is_in[side]))
                for side in (0, 1)
            ]
            if pair[0] is not None and pair[1] is not None:
                found.add((min(pair[0], pair[1]), max(pair[0], pair[1])))
        if not found:
            return None
        precise = {(i, j): 1 / (self._scale[i, i] * self._scale[j, j] + self._scale[i, j] ** 2) for i, j in found}
        whole = sum(precise.values())
        return [(i, j, float(one / whole)) for (i, j), one in sorted(precise.items())]

    def moments_of(self, terms: Sequence[Polynomial], weight: Polynomial) -> "TermMoments":
        """Return how the weighted sums over rows of all pairs of terms follow from the release.

        Raises:
            AnswerError: the release does not hold one of them; it is named, and what would hold it.
        """
        wanted = [self.times(a, b, weight) for a in terms for b in terms] + [self.times(weight, weight)]
        monomials = list(dict.fromkeys(one for polynomial in wanted for one in polynomial))
        entries = {one: self.sum_of(one) for one in monomials}
        missing = [one for one, found in entries.items() if found is None]
        if missing:
            raise AnswerError(self._what_is_missing(missing))
        flat = [(i, j, at, share) for at, one in enumerate(monomials) for i, j, share in entries[one] or ()]
        constant = len(self.moments.names)
        used = [*sorted({place for i, j, _, _ in flat for place in (i, j)} - {constant}), constant]
        local = {place: at for at, place in enumerate(used)}
        to_sums = np.zeros((len(flat), len(monomials)))
        to_wanted = np.zeros((len(monomials), len(wanted)))
        for row, (_, _, at, share) in enumerate(flat):
            to_sums[row, at] = share
        for column, polynomial in enumerate(wanted):
            for one, factor in polynomial.items():
                to_wanted[monomials.index(one), column] = factor
        names = tuple(self.moments.names[place] for place in used[:-1])
        rows, columns = tuple(local[i] for i, *_ in flat), tuple(local[j] for _, j, *_ in flat)
        return TermMoments(len(terms), names, rows, columns, to_sums @ to_wanted)

    def _what_is_missing(self, monomials: Sequence[Monomial]) -> str:
        """Return which sums the release lacks, and the columns that a job would have to name."""
        columns: dict[str, None] = {}
        for monomial in monomials:
            of_owner = defaultdict[str, list[str]](list)
            for one in monomial:
                owner, _, name = one.partition(".")
                of_owner[owner].append(name)
            if len(of_owner) > 2:
                what = f"the sum of {spelled(monomial)} over the rows is in no release"
                return f"{what}: one holds products of two columns, and this has factors of {len(of_owner)} owners"
            parts = list(of_owner.items())
            if len(parts) == 1:
                ((owner, names),) = parts
                half = -(-len(names) // 2)
                parts = [(owner, names[:half]), (owner, names[half:])]
            for owner, names in parts:
                if self.reduced([f"{owner}.{name}" for name in names]) not in self.places:
                    columns[f"{owner}.{spelled(names)}"] = None
        lacks = ", ".join(spelled(one) for one in monomials[:_NAMED])
        return (
            f"the release does not hold the sum over the rows of {lacks}{', ...' if len(monomials) > _NAMED else ''}: "
            f"a job of second-moments that names {', '.join(columns)} too among its columns has what it takes"
        )


@dataclass(frozen=True)
class TermMoments:
    """A linear map from second moments to those of terms.

    Attributes:
        n_terms: number of terms.
        names: released columns that count.
        rows, columns: entries of the second moments of these that count.
        weights: how each counts for each pair of terms, and for the sum of squared weights,
            shape (entries, n_terms^2 + 1).
    """

    n_terms: int
    names: tuple[str, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    weights: Floats

    def of(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return the weighted moments of the terms, shape (..., terms, terms), and the sum of squared weights.

        Args:
            raw: second moments of `names` in the columns' own units, shape (..., m, m).
        """
        found = raw[..., list(self.rows), list(self.columns)] @ self.weights
        return found[..., :-1].reshape(*raw.shape[:-2], self.n_terms, self.n_terms), found[..., -1]


def is_plain(moments: ReleasedMoments, name: str) -> bool:
    """Return whether a name is that of a released column or category, and no other term."""
    return name in moments.names or any(one.startswith(f"{name}=") for one in moments.names)


def of_names(terms: Terms, names: Sequence[str]) -> list[Term]:
    """Return the terms of some texts, each once.

    Raises:
        AnswerError: see `Terms.of`; or two of them are the same.
    """
    found: dict[str, Term] = {}
    for text in names:
        for term in terms.of(text):
            same = next((one.name for one in found.values() if one.polynomial == term.polynomial), None)
            if same is not None:
                raise AnswerError(f"the terms {same!r} and {term.name!r} are the same: a yes or no is its own square")
            found[term.name] = term
    return list(found.values())


def columns_in(polynomial: Mapping[Monomial, float]) -> set[str]:
    """Return the columns that a term is made of."""
    return {name for monomial in polynomial for name in monomial}
