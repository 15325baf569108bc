"""FOR AUDITS ONLY: mechanisms with known faults. `moiety audit` must catch every one of them; nothing else uses them.

Each is the fault of a published protocol or of a common library, with the claim that goes with it. Sound mechanisms
with too little noise are made by `audit.less_noise`.
"""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray

from dp.audit.audit import Claim, Statistics
from dp.draw.noise import sample_discrete_gaussian
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

DELTA = 1e-3


@dataclass(frozen=True)
class TwoViewsOfOneSum:
    """The masked sum of a published factorization protocol, when no member drops out.

    Members add noise for the fewest survivors. Afterwards each sends -xi_i + xi'_i, its old noise against new noise of
    the intended size. The coordinator has g + sum xi and sum (xi' - xi): two views of g, not one with the noise
    sum xi'. Given both, noise of variance z1 z2 / (z1 + z2) is left, half of what is claimed at z1 = z2.

    Attributes:
        deviation: standard deviation of the claimed noise.
        sensitivity: sensitivity of the sum.
    """

    deviation: int = 1000
    sensitivity: int = 1000

    @property
    def claim(self) -> Claim:
        """Epsilon of Gaussian noise of the claimed deviation."""
        return Claim(float(get_epsilon_gaussian(self.deviation / self.sensitivity, DELTA)), DELTA)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the best combination of the two views."""
        early = sample_discrete_gaussian(entropy, self.deviation**2, n_runs)
        late = sample_discrete_gaussian(entropy, self.deviation**2, n_runs)
        noisy_sum, correction = self.sensitivity * world + early, late - early
        # g + early and g + late are independent views of equal variance: their mean has half of it.
        return {"mean of both views": noisy_sum + correction / 2}


@dataclass(frozen=True)
class SketchWithSharedKeys:
    """The cardinality sketch of a published clustering protocol: two parties, one target user, keys that both share.

    Each party publishes per sketch the largest hash of its phantoms and the target; per party the claim is
    (epsilon, delta), added up over two parties. But the target's hash is the same at both.

    Attributes:
        n_sketches: independent keys.
        party_epsilon: claimed for each party.
        party_delta: delta claimed for each party.
    """

    n_sketches: int = 4
    party_epsilon: float = 0.5
    party_delta: float = 5e-5

    @property
    def claim(self) -> Claim:
        """The sum over the two parties."""
        return Claim(2 * self.party_epsilon, 2 * self.party_delta)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the largest value that both parties publish for one sketch."""
        spread = math.sqrt(self.n_sketches * math.log(1 / self.party_delta))
        per_sketch = self.party_epsilon / (4 * spread)
        n_phantoms = math.ceil(1 / math.expm1(per_sketch))
        floor = math.ceil(-math.log2(-math.expm1(-per_sketch)))
        stream = KeyStream(entropy.read(KEY_BYTES))
        agreed = np.zeros(n_runs)
        for _ in range(self.n_sketches):
            first, second = (_largest_hash(stream, n_phantoms, n_runs) for _ in range(2))
            if world == 1:
                target = _largest_hash(stream, 1, n_runs)
                first, second = np.maximum(first, target), np.maximum(second, target)
            first, second = np.maximum(first, floor), np.maximum(second, floor)
            agreed = np.maximum(agreed, np.where(first == second, first, 0.0))
        return {"largest agreed value": agreed}


def _largest_hash(stream: KeyStream, n_users: int, n_runs: int) -> NDArray[np.float64]:
    """Return the largest of `n_users` variables with P(H <= r) = 1 - 2^-r, by inversion."""
    uniform = (stream.words(n_runs) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
    return np.ceil(-np.log2(-np.expm1(np.log(uniform) / n_users)))


@dataclass(frozen=True)
class FloatLaplace:
    """A number with numpy's floating-point Laplace noise. Its lowest bits give away what was added [Mironov12]."""

    @property
    def claim(self) -> Claim:
        """Claim of the distribution in real arithmetic: sensitivity 1, scale 1."""
        return Claim(1.0, 0.0)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the number, and whether a small one has bits below 2^-53, as no sum with 1 has."""
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(entropy.read(16), "little")))
        noisy = world + generator.laplace(0.0, 1.0, n_runs)
        scaled = noisy * 2.0**53
        return {
            "value": noisy,
            "low bits": ((np.abs(noisy) < 0.5) & (scaled != np.rint(scaled))).astype(np.float64),
        }


@dataclass(frozen=True)
class FloatWave:
    """The square wave in floating point, v + b (2 U - 1) in the window [SW20]: its lowest bits give v away.

    Where v is 0, outputs near 0 have bits far below 2^-55. Where v is 0.2, they are sums of two numbers of at least
    1/8 in size, so multiples of 2^-55.
    """

    values: tuple[float, float] = (0.0, 0.2)

    @property
    def claim(self) -> Claim:
        """Claim of the distribution in real arithmetic."""
        return Claim(1.0, 0.0)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the output, and whether a small one has bits below 2^-55."""
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(entropy.read(16), "little")))
        odds, b, v = math.e, 1 / (2 * (math.e - 2) * math.e), self.values[world]
        near = v + b * (2 * generator.random(n_runs) - 1)
        far = generator.random(n_runs)
        far = np.where(far < v, far - b, far + b)
        noisy = np.where(generator.random(n_runs) < 2 * b * odds / (2 * b * odds + 1), near, far)
        scaled = noisy * 2.0**55
        return {
            "value": noisy,
            "low bits": ((np.abs(noisy) < 0.01) & (scaled != np.rint(scaled))).astype(np.float64),
        }
