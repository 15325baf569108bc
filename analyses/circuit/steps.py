"""The steps of a program on shares, and what they send.

A step's value is reduced to degree t only where something needs that: a further product, or a comparison. What is
summed may be a product as it is, unless products are proven: then each is reduced at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from analyses.circuit.functions import FUNCTIONS, Range, outline, size_of
from analyses.circuit.program import MASKED, Program, Step
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES
from mpc.errors import FieldTooSmallError, LocalFaultError
from mpc.proofs.proven_bits import MOST_ROWS, WIDTH
from mpc.protocol.computation import Computation
from mpc.protocol.shared import SharedArray, stack
from mpc.traffic import circuits
from mpc.traffic.shares import ShareTraffic

Value = SharedArray | int


async def row_sums(
    c: Computation,
    program: Program,
    ranges: Mapping[str, Range],
    columns: Mapping[str, SharedArray],
    counting: SharedArray | None = None,
) -> SharedArray:
    """Return the sums that the program opens, over some rows, shape (openings,), degree 2t at most.

    Args:
        c: the computation.
        program: the steps.
        ranges: range of each step.
        columns: column to its rows, shape (rows,), degree t.
        counting: 1 for each row that counts and 0 for others, shape (rows,); None where all count.

    Cost: rounds of each step, one after the other; `walk_through` says which.
    """
    values: dict[str, Value] = {}
    n_rows = next(iter(columns.values())).shape[0]
    prepared = prepared_before(program, ranges, c.field, c.t, n_rows)

    async def low(operand: str | int) -> Value:
        value = values[operand] if isinstance(operand, str) else operand
        if isinstance(value, SharedArray) and value.degree > c.t:
            value = await c.reduce(value)
            values[str(operand)] = value
        return value

    for step in program.steps:
        if step.name in prepared:
            await c.prepare_bits(prepared[step.name])
        if step.operation == "column":
            value = columns[str(step.operands[0])]
        elif step.operation in ("add", "sub"):
            a, b = (values[o] if isinstance(o, str) else o for o in step.operands)
            value = _array(a + b if step.operation == "add" else a - b)
        else:
            takes_products = step.operation == "truncate"
            operands = [
                (values[str(o)] if takes_products and isinstance(o, str) else await low(o)) for o in step.operands
            ]
            value = await _applied(c, step, ranges, operands)
        values[step.name] = replace(value, bound=size_of(ranges[step.name]))
    if counting is None:
        return stack([_array(values[str(step.operands[0])]).sum(0) for step in program.opened])
    sums = [await _product(c, _array(await low(step.operands[0])), counting) for step in program.opened]
    return stack([array.sum(0) for array in sums])


async def _product(c: Computation, a: SharedArray, b: SharedArray) -> SharedArray:
    """Return a product as it may be summed and opened: as it is, or where products are proven, reduced."""
    return a * b if c.product_degree > c.t else await c.multiply(a, b)


async def _applied(c: Computation, step: Step, ranges: Mapping[str, Range], operands: list[Value]) -> SharedArray:
    """Return what a step that multiplies or compares makes of operands of degree t."""
    name = step.operation
    if name == "mul":
        a, b = operands
        if isinstance(a, SharedArray) and isinstance(b, SharedArray):
            return await _product(c, a, b)
        return _array(a * b)
    if name in ("low_bits", "floor_shift"):
        x, n_bits = operands
        assert isinstance(n_bits, int), "ranges have been computed"
        shifted: SharedArray = await getattr(c, name)(_array(x), n_bits)
        return shifted
    if name in FUNCTIONS:
        *operands, scale_bits = operands
    like = next(operand for operand in operands if isinstance(operand, SharedArray))
    arrays = [like * 0 + o if isinstance(o, int) else o for o in operands]
    if name in FUNCTIONS:
        return await FUNCTIONS[name].run(c, *arrays, scale_bits, ranges_of_operands(step, ranges))
    if name == "select":
        bit, x, y = arrays
        return y + await _product(c, bit, x - y)
    compared: SharedArray = await getattr(c, name)(*arrays, bound=largest_difference(step, ranges))
    return compared


def ranges_of_operands(step: Step, ranges: Mapping[str, Range]) -> list[Range]:
    """Return the range of each operand; of an integer, itself."""
    return [(operand, operand) if isinstance(operand, int) else ranges[operand] for operand in step.operands]


def largest_difference(step: Step, ranges: Mapping[str, Range]) -> int:
    """Return the bound on the difference of the operands of a comparison."""
    a, b = ranges_of_operands(step, ranges)
    return max(abs(a[0] - b[1]), abs(a[1] - b[0]))


def n_bits_of(step: Step, ranges: Mapping[str, Range]) -> int:
    """Return m of the masked opening of a step."""
    if step.operation in ("low_bits", "floor_shift"):
        return int(step.operands[1])
    return max(1, largest_difference(step, ranges).bit_length())


def check_room(program: Program, ranges: Mapping[str, Range], field: ResidueField, t: int) -> None:
    """Refuse a field without room for the masks.

    Raises:
        FieldTooSmallError: a step needs a larger one; names its line.
        LocalFaultError: a function has no polynomial on its interval; names its line.
    """
    for step in program.steps:
        if step.operation in MASKED or step.operation in FUNCTIONS:
            try:
                _walk_through_masked(outline(len(field.primes), t), step, ranges, 1)
            except (FieldTooSmallError, LocalFaultError) as error:
                raise type(error)(f"line {step.number}, {step.line[:80]!r}: {error}") from None


def n_masked(program: Program, ranges: Mapping[str, Range], t: int) -> int:
    """Return the masked openings per row, those of functions included; errors as of `check_room`."""
    check_room(program, ranges, ResidueField(len(PRIMES)), t)
    share = outline(len(PRIMES), t)
    walk_through(share, program, ranges, 1, counts=False)
    return share.n_opened


def prepared_before(
    program: Program, ranges: Mapping[str, Range], field: ResidueField, t: int, n_rows: int
) -> dict[str, int]:
    """Return before which steps bits of masks are prepared where they are proven, and how many, for so many rows.

    They are those of this step and of as many further ones as one proof is about at most.
    """
    found: dict[str, int] = {}
    name = ""
    for step in program.steps:
        needed = _n_signs(step, ranges, field, t, n_rows)
        if needed:
            if not name or found[name] + needed > WIDTH * MOST_ROWS:
                name, found[step.name] = step.name, 0
            found[name] += needed
    return found


def rows_at_once(program: Program, ranges: Mapping[str, Range], field: ResidueField, t: int, most: int) -> int:
    """Return of how many rows all steps are done at once where bits of masks are proven: each step's take one proof."""
    of_a_row = max((_n_signs(step, ranges, field, t, 1) for step in program.steps), default=0)
    return max(1, min(most, WIDTH * MOST_ROWS // max(1, of_a_row)))


class _Signs(ShareTraffic):
    """Counts the bits that masks are made of where they are proven."""

    n_signs = 0

    @property
    def product_degree(self) -> int:
        """Degree t: where bits are proven, products are reduced before they are cut off."""
        return self.t

    def random_parts(self, n_bits: int, n_values: int, sizes: Sequence[int]) -> None:
        """Count them; arguments as of `Bits._random_parts`."""
        self.n_signs += n_bits + n_values * sum(sizes)


def _n_signs(step: Step, ranges: Mapping[str, Range], field: ResidueField, t: int, n_rows: int) -> int:
    """Return the bits of masks of a step, of each dealer, for so many rows."""
    if step.operation not in MASKED and step.operation not in FUNCTIONS:
        return 0
    share = outline(len(field.primes), t, _Signs)
    assert isinstance(share, _Signs)
    _walk_through_masked(share, step, ranges, n_rows)
    return share.n_signs


def _largest_masked(step: Step, ranges: Mapping[str, Range]) -> int:
    """Return the bound of what a step opens under a mask."""
    is_shift = step.operation in ("low_bits", "floor_shift")
    return size_of(ranges_of_operands(step, ranges)[0]) if is_shift else largest_difference(step, ranges)


def walk_through(
    share: ShareTraffic, program: Program, ranges: Mapping[str, Range], n_rows: int, *, counts: bool
) -> None:
    """Walk through `row_sums`; `counts` says whether some rows may not count."""
    degrees: dict[str, int] = {}
    field = ResidueField(share.n_primes)
    prepared = prepared_before(program, ranges, field, share.t, n_rows)

    def multiplied() -> int:
        if share.product_degree == share.t:
            share.reduce(n_rows)
        return share.product_degree

    def of(operand: str | int) -> int:
        return degrees[operand] if isinstance(operand, str) else 0

    for step in program.steps:
        if step.name in prepared:
            share.prepare_bits(prepared[step.name])
        if step.operation == "column":
            degrees[step.name] = share.t
            continue
        if step.operation in ("add", "sub"):
            degrees[step.name] = max(map(of, step.operands))
            continue
        for operand in step.operands if step.operation != "truncate" else ():
            if of(operand) > share.t:
                share.reduce(n_rows)
                degrees[str(operand)] = share.t
        degrees[step.name] = share.t
        if step.operation in ("mul", "select"):
            secret = [o for o in step.operands if isinstance(o, str)]
            degrees[step.name] = multiplied() if step.operation == "select" or len(secret) > 1 else share.t
        else:
            _walk_through_masked(share, step, ranges, n_rows, of(step.operands[0]))
    for step in program.opened if counts else ():
        if of(step.operands[0]) > share.t:
            share.reduce(n_rows)
            degrees[str(step.operands[0])] = share.t
        multiplied()


def _walk_through_masked(
    share: ShareTraffic, step: Step, ranges: Mapping[str, Range], n_rows: int, degree: int | None = None
) -> None:
    """Walk through a step that opens something under masks; `degree` is that of what `truncate` takes."""
    given = ranges_of_operands(step, ranges)
    if step.operation == "truncate":
        circuits.truncate(share, n_rows, size_of(given[0]), given[1][0], degree)
        return
    if step.operation in FUNCTIONS:
        FUNCTIONS[step.operation].walk(share, n_rows, *given)
        return
    walk = circuits.is_zero if step.operation == "equal" else circuits.low_bits
    walk(share, n_rows, n_bits_of(step, ranges), _largest_masked(step, ranges))
    if step.operation in ("minimum", "maximum"):
        circuits.select(share, n_rows)


def _array(value: Value) -> SharedArray:
    assert isinstance(value, SharedArray), "a step depends on a column"
    return value
