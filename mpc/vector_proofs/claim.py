"""What is proven of a vector of integers, and where everything stands in what its prover shares.

A claim is about x_1 .. x_d, each in lowest .. highest, all of them together within a squared norm or a sum where one is
given, and one more integer, the weight, in 0 .. its top. What is shared is elements modulo p = 2^64 - 2^32 + 1.

The digits of the x_i (`mpc.vector_proofs.digits`) fill a table of m rows, m a power of 2: C' integers in each row, with
their digits side by side. Behind them stand columns of further digits: what is left up to the norm and up to the sum,
the weight and what is left up to its top. Every column has one more number, its mask.

    shared first     the table, a row of masks below it, and, with a norm, m - 1 coefficients of a polynomial
    shared then      what the first part and a challenge make of them: `mpc.vector_proofs.prover`
"""

from dataclasses import dataclass
from functools import cached_property

from mpc.errors import OutOfRangeError
from mpc.prime.kernels import PRIME
from mpc.vector_proofs.digits import LARGEST_TOP, Digits

REPETITIONS = 2
"""Challenges of one proof. Each is met by a false claim with 1 / p, and a prover can try many, by itself."""

LARGEST_TABLE = 1 << 22
"""Elements that a prover shares at most."""

FULL_DIGITS = 1 + LARGEST_TOP
"""Digits that can hold a number hold less than so many times that number."""

_FEWEST_ROWS, _MOST_ROWS = 4, 1 << 12


@dataclass(frozen=True)
class Claim:
    """What is proven of a vector. Public.

    Attributes:
        length: d, integers x_i.
        lowest, highest: each is in lowest .. highest.
        squared_norm: the sum of their squares is at most so much; None: whatever the range allows.
        largest_sum: their sum is at most so much; None: whatever the range allows. Needs lowest = 0.
        weight: top of one more integer, at least 0; None: there is none.

    Raises:
        OutOfRangeError: the field is too small for it, or the vector is too long.
    """

    length: int
    lowest: int
    highest: int
    squared_norm: int | None = None
    largest_sum: int | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.length < 1 or not self.lowest <= 0 < self.highest:
            raise OutOfRangeError("a proof is about integers of a range with 0 and something above it")
        if self.largest_sum is not None and self.lowest != 0:
            raise OutOfRangeError("a sum is proven of integers that are not negative")
        size, n, held = max(-self.lowest, self.highest), self.table.n_entries, [self.highest - self.lowest]
        if self.squared_norm is not None:
            held.append(n * size**2 + FULL_DIGITS * self.squared_norm)
        if self.largest_sum is not None:
            held.append(n * size + FULL_DIGITS * self.largest_sum)
        if self.weight is not None:
            held.append(2 * FULL_DIGITS * self.weight)
        if max(held) >= PRIME // 2:
            raise OutOfRangeError(
                f"{self.length} integers of up to {size} are too large for the field of proofs: use fewer units"
            )

    @cached_property
    def digits(self) -> Digits:
        """How an integer less the lowest one is written."""
        return Digits.of_range(self.highest - self.lowest)

    @cached_property
    def table(self) -> "Table":
        """Where everything stands; of all numbers of rows the one with which least is shared and opened."""
        sizes = [_FEWEST_ROWS]
        while sizes[-1] < min(_MOST_ROWS, self.length):
            sizes.append(2 * sizes[-1])
        found = min((Table(self, n) for n in sizes), key=lambda table: table.cost)
        if found.first_part > LARGEST_TABLE:
            raise OutOfRangeError(
                f"{self.length} integers of {len(self.digits.tops)} digits are more than what is proven at once, "
                f"{LARGEST_TABLE} elements: use fewer units"
            )
        return found


@dataclass(frozen=True)
class Table:
    """Where everything stands that is shared.

    Attributes:
        claim: what is proven.
        rows: m.
    """

    claim: Claim
    rows: int

    @cached_property
    def entries_of_row(self) -> int:
        """C': integers of a row."""
        return -(-self.claim.length // self.rows)

    @property
    def n_entries(self) -> int:
        """All integers of the table; those behind the vector are 0."""
        return self.entries_of_row * self.rows

    @cached_property
    def base(self) -> int:
        """The values of further digits: 0 .. base - 1."""
        return max(self.claim.digits.tops) + 1

    @cached_property
    def further(self) -> dict[str, slice]:
        """Further numbers by name, and which of the further digits are theirs."""
        claim, start, found = self.claim, 0, {}
        numbers = {"norm": claim.squared_norm, "sum": claim.largest_sum, "weight": claim.weight, "rest": claim.weight}
        for name, largest in numbers.items():
            if largest is not None:
                n_digits = 1
                while self.base**n_digits <= largest:
                    n_digits += 1
                found[name] = slice(start, start + n_digits)
                start += n_digits
        return found

    @cached_property
    def entry_columns(self) -> int:
        """Columns of the integers' digits."""
        return self.entries_of_row * len(self.claim.digits.tops)

    @cached_property
    def columns(self) -> int:
        """C: all columns."""
        n_further = max((place.stop for place in self.further.values()), default=0)
        return self.entry_columns + -(-n_further // self.rows)

    def places(self, name: str) -> list[int]:
        """Return where the digits of a further number stand in the first part, the lowest first."""
        n = self.columns - self.entry_columns
        digits = range(self.further[name].start, self.further[name].stop)
        return [digit // n * self.columns + self.entry_columns + digit % n for digit in digits]

    @cached_property
    def tops(self) -> tuple[int, ...]:
        """The largest digit of each column."""
        n_further = self.columns - self.entry_columns
        return self.claim.digits.tops * self.entries_of_row + (self.base - 1,) * n_further

    @property
    def masked(self) -> int:
        """Elements of the table and its row of masks."""
        return (self.rows + 1) * self.columns

    @cached_property
    def first_part(self) -> int:
        """Elements that are shared before the challenge."""
        return self.masked + (self.rows - 1 if self.claim.squared_norm is not None else 0)

    @cached_property
    def second_part(self) -> int:
        """Elements that are shared after it: for each repetition a polynomial by its values on `base` cosets."""
        return REPETITIONS * self.base * self.rows

    @property
    def opened(self) -> int:
        """Elements that are opened to verify: one for each column and repetition."""
        return self.columns + REPETITIONS

    @property
    def n_constraints(self) -> int:
        """Elements of a challenge for each repetition: one for each column, and for each of `constraints`."""
        return self.columns + len(self.constraints)

    @cached_property
    def constraints(self) -> tuple[str, ...]:
        """Constraints beside those of the columns: "norm", "sum", "weight"."""
        return tuple(name for name in self.further if name != "rest")

    @property
    def cost(self) -> int:
        """What is shared and opened of one vector, in elements; opened ones go to all parties."""
        return self.first_part + self.second_part + 4 * self.opened

    def log2_error(self) -> float:
        """Return a bound on the log2 of the probability that a false claim is accepted, whatever its prover tried.

        See `mpc.vector_proofs.verifier`: that of the parties' point, (base + 1) rows in p less as many. That of a
        challenge is 2^-128 for each that a prover tries, so 2^64 tries leave it smaller.
        """
        return ((self.base + 1) * self.rows).bit_length() - 63.0
