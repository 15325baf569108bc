"""Compiled loops of the estimate of a distribution from the responses of a wave.

One map of expectation maximisation takes a distribution x to x times M'(c / (M x)), with c the counts of the outputs
and M[j, i] = P(output j | input i), which is `base` = B / T everywhere, and more in the window i .. i + 2 w of input i.
There it is larger by `excess` times a height that climbs from 1 to `slope`, stays, and falls again: the window of a
square wave has slope 1, that of a triangle w + 1. Such a window is a box of `slope` places, shifted by each place of a
box of 2 w + 2 - `slope` places. So M x and M' r are sums over windows of sums over windows: differences of prefix sums,
O(m) in time and memory. The prefix sums are of positive numbers below 1 (or of ratios), and each result has the term
`base` times their total, so that their cancellation costs no more than a relative 1e-12.

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
def _boxed(sums: Any, other: Any, start: Any, n: Any, length: Any) -> Any:
    """Replace prefix sums of n numbers by those of the n + length - 1 sums over `length` neighbours of them.

    Both lie from `start` on, behind as many zeros; what `other` holds there is overwritten.
    """
    total = sums[start + n]
    for t in range(start + n + 1, start + n + length):
        sums[t] = total
    running = 0.0
    for t in range(start + 1, start + n + length):
        running += sums[t] - sums[t - length]
        other[t] = running
    for t in range(start + 1, start + n + length):
        sums[t] = other[t]


@inlined
def _map(
    out: Any,
    x: Any,
    counts: Any,
    prefix: Any,
    ratios: Any,
    n: Any,
    per_bucket: Any,
    w: Any,
    slope: Any,
    base: Any,
    excess: Any,
    n_passes: Any,
) -> None:
    d = n * per_bucket
    n_real, box, has_empty = d + 2 * w, 2 * w + 2 - slope, x.size > n
    # prefix[t] is the sum of the first t - 2 w - 1 inputs, and 0 up to t = 2 w + 1, as the caller made it: then no
    # index of the next loops needs a comparison.
    start, present, place = 2 * w + 1, 0.0, 2 * w + 1
    for i in range(n):
        share = x[i] / per_bucket
        for _ in range(per_bucket):
            present += share
            place += 1
            prefix[place] = present
    if slope > 1:
        _boxed(prefix, ratios, start, d, slope)
    total = prefix[start + d + slope - 1]
    for t in range(start + d + slope, start + n_real + 1):
        prefix[t] = total
    flat, sum_of_ratios = base * (present + (x[n] if has_empty else 0.0)), 0.0
    ratios[0] = 0.0
    for j in range(n_real):
        sum_of_ratios += counts[j] / (flat + excess * (prefix[start + j + 1] - prefix[start + j + 1 - box]))
        ratios[j + 1] = sum_of_ratios
    empty_ratio, weighted = 0.0, 0.0
    if has_empty:
        for j in range(n_real, counts.size):
            height = min(slope, w + 1 - abs(j - n_real - w))
            ratio = counts[j] / (flat + excess * height * x[n])
            empty_ratio += ratio
            weighted += height * ratio
        out[n] = x[n] * (base * (sum_of_ratios + empty_ratio) + excess * weighted)
    everywhere, before = base * (sum_of_ratios + empty_ratio), 0.0
    if slope > 1:
        running = 0.0
        for t in range(d + slope - 1):
            running += ratios[t + box] - ratios[t]
            prefix[start + t + 1] = running
        for t in range(d + slope):
            ratios[t] = prefix[start + t]
    reach, place = (slope if slope > 1 else box), 0
    for i in range(n):
        inside = 0.0
        for _ in range(per_bucket):
            inside += ratios[place + reach] - ratios[place]
            place += 1
        mass = x[i] * (everywhere + excess * inside / per_bucket)
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


@inlined
def _extrapolate(point: Any, x: Any, first: Any, second: Any) -> None:
    """Write the point that SQUAREM goes to from x and its two maps."""
    r_squared, v_squared = 0.0, 0.0
    for i in range(x.size):
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
        for i in range(x.size):
            r = first[i] - x[i]
            v = second[i] - first[i] - r
            point[i] = second[i] if step == 1.0 else x[i] + 2.0 * step * r + step * step * v
            least = min(least, point[i])
        if least > 0.0 or step == 1.0:
            break
        step = (step + 1.0) / 2.0


@kernel(_OUT, _IN, _IN, _WORK, "int64", "int64", "int64", "int64", "float64", "float64", "int64")
def map_once(
    out: Floats,
    x: Floats,
    counts: Floats,
    work: Floats,
    n: int,
    per_bucket: int,
    w: int,
    slope: int,
    base: float,
    excess: float,
    n_passes: int,
) -> None:
    """Write the map of x to `out`.

    Args:
        out: shape of x; another array.
        x: shape (n,), or (n + 1,) with the empty input; positive.
        counts: counts of the outputs, shape (d + 2 w,), or (d + 4 w + 1,), with d = n `per_bucket`.
        work: shape (at least 2, at least d + 4 w + 2), zeros; overwritten, but for the zeros before prefix sums.
        n: number of buckets, at least 2.
        per_bucket: number of inputs in a bucket, over which its values are spread evenly.
        w: half-width of the window.
        slope: height of the window at its top, 1 to w + 1.
        base: B / T.
        excess: what a height of 1 adds to it.
        n_passes: passes of smoothing, 0 for none.
    """
    _map(out, x, counts, work[0], work[1], n, per_bucket, w, slope, base, excess, n_passes)


@kernel(
    _OUT,
    _IN,
    _WORK,
    *("int64", "int64", "int64", "int64", "float64", "float64", "int64", "float64", "int64"),
    returns="int64",
)
def fixed_point(
    x: Floats,
    counts: Floats,
    work: Floats,
    n: int,
    per_bucket: int,
    w: int,
    slope: int,
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
        counts: see `map_once`.
        work: shape (5, at least d + 4 w + 2), zeros; overwritten, but for the zeros before prefix sums.
        n: see `map_once`.
        per_bucket: see `map_once`.
        w: see `map_once`.
        slope: see `map_once`.
        base: see `map_once`.
        excess: see `map_once`.
        n_passes: passes of smoothing, at least 1.
        tolerance: largest change of the cumulative distribution by one map that ends the maps.
        max_maps: at most so many maps and two more.

    Returns:
        the number of maps, or its negative where the tolerance was not met.
    """
    size = x.size
    prefix, ratios = work[0], work[1]
    first, second, point = work[2][:size], work[3][:size], work[4][:size]
    # The three maps of a step are one place of this loop, as each copy of the map takes seconds to compile.
    n_maps, stage, source, target = 0, 0, x, first
    while stage > 0 or n_maps < max_maps:
        _map(target, source, counts, prefix, ratios, n, per_bucket, w, slope, base, excess, n_passes)
        n_maps += 1
        if stage == 0:
            if _cdf_change(first, x) < tolerance:
                for i in range(size):
                    x[i] = first[i]
                return n_maps
            stage, source, target = 1, first, second
        elif stage == 1:
            _extrapolate(point, x, first, second)
            stage, source, target = 2, point, x
        else:
            stage, source, target = 0, x, first
    return -n_maps
