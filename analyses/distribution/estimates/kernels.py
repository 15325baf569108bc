"""Compiled loops of the estimate of a distribution from the responses of a square wave.

One map of expectation maximisation takes a distribution x to x times M'(c / (M x)), with c the counts of the outputs
and M[j, i] = P(output j | input i), which is `base` = B / T everywhere and `base` + `excess` = A / T in the window i ..
i + 2 w of input i. So M x and M' r are sums over windows: differences of prefix sums, O(m) in time and memory. The
prefix sums are of positive numbers below 1 (or of ratios), and each result has the term `base` times their total, so
that their cancellation costs no more than a relative 1e-12.

With smoothing, each map ends with passes of the weights (1, 2, 1) / 4, at the two ends (2, 1) / 3, and the
distribution is scaled to the mass it had before them [SW20].

An input `empty`, where x has one entry more than there are buckets, has a window of its own behind the others and takes
no part in the smoothing (`dp.local_mechanism.wave`).

The work arrays are arguments, and zeros from the start, because kernels allocate nothing and call no function from
outside, not even the one that clears memory (`mpc.machine_code`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, inlined, kernel

Floats = NDArray[np.float64]

_IN = Array("float64")
_OUT = Array("float64", is_written=True)
_WORK = Array("float64", n_dimensions=2, is_written=True)
_HALVINGS = 40
_NEWTON_STEPS = 60


@inlined
def _map(
    out: Any, x: Any, counts: Any, prefix: Any, ratios: Any, n: Any, w: Any, base: Any, excess: Any, n_passes: Any
) -> None:
    n_real, has_empty = n + 2 * w, x.size > n
    # prefix[t] is the sum of the first t - 2 w entries of x, and 0 up to t = 2 w, as the caller made it: then no index
    # of the next loop needs a comparison.
    present = 0.0
    for i in range(n):
        present += x[i]
        prefix[2 * w + i + 1] = present
    for t in range(2 * w + n + 1, 4 * w + n + 1):
        prefix[t] = present
    flat, sum_of_ratios = base * (present + (x[n] if has_empty else 0.0)), 0.0
    ratios[0] = 0.0
    for j in range(n_real):
        sum_of_ratios += counts[j] / (flat + excess * (prefix[j + 2 * w + 1] - prefix[j]))
        ratios[j + 1] = sum_of_ratios
    empty_ratio = 0.0
    if has_empty:
        for j in range(n_real, counts.size):
            empty_ratio += counts[j] / (flat + excess * x[n])
        out[n] = x[n] * (base * (sum_of_ratios + empty_ratio) + excess * empty_ratio)
    everywhere, before = base * (sum_of_ratios + empty_ratio), 0.0
    for i in range(n):
        mass = x[i] * (everywhere + excess * (ratios[i + 2 * w + 1] - ratios[i]))
        out[i] = mass
        before += mass
    after = before
    for _ in range(n_passes):
        # A pass moves a twelfth of the difference of the two buckets at each end into or out of the sum.
        after += (out[1] - out[0] + out[n - 2] - out[n - 1]) / 12.0
        left = out[0]
        out[0] = (2.0 * out[0] + out[1]) / 3.0
        for i in range(1, n - 1):
            here = out[i]
            out[i] = (left + 2.0 * here + out[i + 1]) / 4.0
            left = here
        out[n - 1] = (left + 2.0 * out[n - 1]) / 3.0
    whole = before + (out[n] if has_empty else 0.0)
    scale = before / after / whole
    for i in range(n):
        out[i] *= scale
    if has_empty:
        out[n] /= whole


@inlined
def _root(x: Any) -> Any:
    """Newton's root of a number from 1 to 1e30: that of the C library would be the only function from outside."""
    root = x
    for _ in range(_NEWTON_STEPS):
        root = (root + x / root) / 2.0
    return root


@inlined
def _cdf_change(a: Any, b: Any) -> Any:
    largest, change = 0.0, 0.0
    for i in range(a.size):
        change += a[i] - b[i]
        largest = max(largest, abs(change))
    return largest


@kernel(_OUT, _IN, _IN, _WORK, "int64", "int64", "float64", "float64", "int64")
def map_once(
    out: Floats, x: Floats, counts: Floats, work: Floats, n: int, w: int, base: float, excess: float, n_passes: int
) -> None:
    """Write the map of x to `out`.

    Args:
        out: shape of x; another array.
        x: shape (n,), or (n + 1,) with the empty input; positive.
        counts: counts of the outputs, shape (n + 2 w,), or (n + 4 w + 1,).
        work: shape (at least 2, at least n + 4 w + 1), zeros; overwritten, but for the zeros before prefix sums.
        n: number of buckets, at least 2.
        w: half-width of the window.
        base: B / T.
        excess: (A - B) / T.
        n_passes: passes of smoothing, 0 for none.
    """
    _map(out, x, counts, work[0], work[1], n, w, base, excess, n_passes)


@kernel(_OUT, _IN, _WORK, "int64", "int64", "float64", "float64", "int64", "float64", "int64", returns="int64")
def fixed_point(
    x: Floats,
    counts: Floats,
    work: Floats,
    n: int,
    w: int,
    base: float,
    excess: float,
    n_passes: int,
    tolerance: float,
    max_maps: int,
) -> int:
    """Overwrite x by the fixed point of the map, by SQUAREM [VaradhanRoland08, scheme S3].

    From x come two maps, x1 and x2. With r = x1 - x and v = (x2 - x1) - r the next point is x + 2 a r + a^2 v, with a =
    |r| / |v|, at least 1, brought nearer to 1, where the point is x2, until all its entries are positive; and one more
    map of it.

    Args:
        x: the start, positive, with sum 1.
        counts: counts of the outputs, shape (n + 2 w,), or (n + 4 w + 1,).
        work: shape (5, at least n + 4 w + 1), zeros; overwritten, but for the zeros before prefix sums.
        n: number of buckets, at least 2.
        w: half-width of the window.
        base: B / T.
        excess: (A - B) / T.
        n_passes: passes of smoothing, at least 1.
        tolerance: largest change of the cumulative distribution by one map that ends the maps.
        max_maps: at most so many maps and two more.

    Returns:
        the number of maps, or its negative where the tolerance was not met.
    """
    size = x.size
    prefix, ratios = work[0], work[1]
    first, second, point = work[2][:size], work[3][:size], work[4][:size]
    n_maps = 0
    while n_maps < max_maps:
        _map(first, x, counts, prefix, ratios, n, w, base, excess, n_passes)
        n_maps += 1
        if _cdf_change(first, x) < tolerance:
            for i in range(size):
                x[i] = first[i]
            return n_maps
        _map(second, first, counts, prefix, ratios, n, w, base, excess, n_passes)
        n_maps += 1
        r_squared, v_squared = 0.0, 0.0
        for i in range(size):
            r = first[i] - x[i]
            v = second[i] - first[i] - r
            r_squared += r * r
            v_squared += v * v
        step = 1.0
        if v_squared > 0.0:
            step = _root(max(1.0, r_squared / v_squared))
        for attempt in range(_HALVINGS + 1):
            if attempt == _HALVINGS:
                step = 1.0
            least = 1.0
            for i in range(size):
                r = first[i] - x[i]
                v = second[i] - first[i] - r
                point[i] = second[i] if step == 1.0 else x[i] + 2.0 * step * r + step * step * v
                least = min(least, point[i])
            if least > 0.0 or step == 1.0:
                break
            step = (step + 1.0) / 2.0
        _map(x, point, counts, prefix, ratios, n, w, base, excess, n_passes)
        n_maps += 1
    return -n_maps
