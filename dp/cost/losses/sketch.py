"""What the sketches of a distributed cardinality estimate cost, exactly: the privacy loss of S parties together.

A user is hashed, with keys that the parties share, to a geometric variable H: P(H <= r) = 1 - (1 + gamma)^-r for
r = 1, 2, ... Each party publishes per cluster the largest H among its users and its phantoms, at least a floor. The
parties' maxima are not independent, as a user who is in a cluster of each moves all of them by the same H: adding up
the parties' costs, as the source of the protocol does, is wrong.

All other users and phantoms of the target's joint cell enter through maxima that are independent of the target, which
is post-processing; so the worst neighbours are the cell with and without the target alone, beside c phantoms that all
parties share and n phantoms of each party.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError, check_delta, check_epsilon
from dp.cost.losses.distribution import Losses

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Floats = NDArray[np.float64]

_LOG_TAIL = -40.0  # log of the mass per sketch beyond the highest value looked at; it counts as lost
_MAX_CELLS = 1 << 19  # of the discretised loss of one sketch
_ROUNDING = 2.0**-20
"""Relative error of a moment, far more than there is: a mass has a relative error below 1e-13 with up to 2^20 phantoms,
losses that matter are above 1e-6, and a moment goes with their squares."""


@dataclass(frozen=True)
class SketchCell:
    """One joint cell of the parties' clusters, and how often it is sketched.

    Attributes:
        gamma: base of the geometric variable is 1 + gamma; positive.
        n_sketches: M, sketches with independent keys.
        n_parties: S, whose clusters meet in the cell; at least 1.
        own_phantoms: n, virtual users per cluster that a party hashes by itself.
        shared_phantoms: c, virtual users per joint cell that all parties hash with the shared keys.
        floor: smallest value published, at least 1.
        adjacency: add or remove one user. (A user who moves between cells leaves one and enters another.)
    """

    gamma: float
    n_sketches: int
    n_parties: int
    own_phantoms: int
    shared_phantoms: int
    floor: int = 1
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.gamma) and self.gamma > 0):
            raise CalibrationError(f"gamma must be a positive finite number, not {self.gamma}")
        if min(self.n_sketches, self.n_parties, self.floor) < 1 or min(self.own_phantoms, self.shared_phantoms) < 0:
            raise CalibrationError(
                "the numbers of sketches and parties and the floor must be at least 1, the numbers of phantoms at "
                "least 0"
            )
        if self.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise CalibrationError("the loss of a sketch can only be computed for add_or_remove_one")

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta` of all sketches of all parties together, rounded up.

        Raises:
            CalibrationError: delta is out of range.
        """
        check_delta(delta)
        return float(self._loss().get_epsilon_for_delta(delta))

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon`, rounded up.

        Raises:
            CalibrationError: epsilon is out of range.
        """
        check_epsilon(epsilon)
        return float(self._loss().get_delta_for_epsilon(epsilon))

    def outcomes(self) -> tuple[Floats, Floats]:
        """Return the probabilities of what the parties publish in one sketch, without and with the target user.

        Parties publish R_l = max(X, P_l), X = max(C) or max(C, H), each at least the floor. Let m be the smallest R_l
        and j the number of parties that publish it. X <= m; who publishes more than m has P_l = R_l; of the j others
        either X = m and P_l <= m, or X < m and P_l = m. So

            P(r_1 .. r_S) = prod_{l: r_l > m} p(r_l) * (F_X(m - 1) p(m)^j + (F_X(m) - F_X(m - 1)) F_P(m)^j)

        and the likelihood ratio depends on (m, j) alone: outcomes with equal (m, j) are one, of
        C(S, j) (1 - F_P(m))^(S - j) times that.

        Returns:
            two arrays of shape (highest - floor + 1, S): entry (m - floor, j - 1). The rest to 1 has m > highest.
        """
        base = math.log1p(self.gamma)
        crowd = 2 + self.own_phantoms + self.shared_phantoms
        highest = self.floor + math.ceil((math.log(crowd) - _LOG_TAIL) / base)
        m = np.arange(self.floor, highest + 1)
        # ln P(H <= r), and of r = m - 1, which is impossible below the floor.
        log_at = np.log(-np.expm1(-m * base))
        log_under = np.concatenate([[-math.inf], log_at[:-1]])
        own_at, own_under = _power(log_at, self.own_phantoms), _power(log_under, self.own_phantoms)
        own_under[0] = 0.0  # the floor takes whatever is below it
        own_mass, own_above = _difference(log_at, log_under, self.own_phantoms), 1 - own_at
        found = []
        for n_common in (self.shared_phantoms, self.shared_phantoms + 1):
            common_under = _power(log_under, n_common)
            common_under[0] = 0.0
            common_mass = _difference(log_at, log_under, n_common)
            columns = []
            for j in range(1, self.n_parties + 1):
                ways = math.comb(self.n_parties, j) * own_above ** (self.n_parties - j)
                columns.append(ways * (common_under * own_mass**j + common_mass * own_at**j))
            found.append(np.stack(columns, axis=1))
        return found[0], found[1]

    def renyi(self, orders: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the Renyi divergences of all sketches, with the target from without and the other way round.

        One sketch, P against Q, L = ln(P / Q). As the masses of both add up to 1,

            E_Q[(P / Q)^a] - 1  =  sum over outcomes of Q (e^(a L) - 1 - a (e^L - 1)),

        terms that are not negative, so nothing cancels between them. |L| is at most
        s = max(ln(1 + 1 / c), -ln P(H <= floor)): all that the parties publish follows from max(C) or max(C, H), with
        the floor, and independent phantoms. Its distribution function is x^c or x^(c + 1), x >= P(H <= floor); each
        mass above the floor changes by a factor between (1 + 1 / c) x and 1 + 1 / c, that of the floor by x itself.
        Outcomes above the highest value looked at have a mass below e^-40 either way: they add at most
        e^-40 (e^((a - 1) s) + a). No order has a divergence above s.

        Args:
            orders: integers, at least 2.

        Returns:
            two arrays of the shape of `orders`, rounded up.

        Raises:
            CalibrationError: there is no shared phantom: the divergence is infinite.
        """
        if self.shared_phantoms < 1:
            raise CalibrationError("a sketch without a phantom that all parties share has no finite privacy cost")
        without, with_target = (masses.ravel() for masses in self.outcomes())
        seen = (without > 0) & (with_target > 0)
        log_ratio = np.log(with_target[seen] / without[seen])
        order = orders.astype(np.float64)[:, None]
        least = math.log1p(-math.exp(-self.floor * math.log1p(self.gamma)))
        most = max(math.log1p(1 / self.shared_phantoms), -least) * (1 + 2.0**-50)
        found = []
        with np.errstate(over="ignore"):
            beyond = np.exp(_LOG_TAIL + (order[:, 0] - 1) * most) + order[:, 0] * math.exp(_LOG_TAIL)
            for base, loss in ((without[seen], log_ratio), (with_target[seen], -log_ratio)):
                terms = np.expm1(order * loss) - order * np.expm1(loss)
                moment = np.maximum(terms, 0) @ base * (1 + _ROUNDING) + beyond
                once = np.log1p(moment) / (order[:, 0] - 1) * (1 + 2.0**-50)
                found.append(self.n_sketches * np.minimum(once, most))
        return found[0], found[1]

    def losses(self) -> tuple[Losses, Losses]:
        """Return the losses of one sketch, with the target against without it and the reverse, rounded up.

        A mass has a relative error below 1e-13 with up to 2^20 phantoms, so the loss of an outcome one below 2e-13.
        """
        without, with_target = (masses.ravel() for masses in self.outcomes())
        seen = (without > 0) & (with_target > 0)
        lost = math.exp(_LOG_TAIL) * (1 + _ROUNDING)
        found = []
        for p, q in ((with_target, without), (without, with_target)):
            unmatched = float(p[(p > 0) & ~seen].sum())
            found.append(Losses(p[seen] * (1 + 2.0**-40), np.log(p[seen] / q[seen]) + 2.0**-41, lost + unmatched))
        return found[0], found[1]

    def _loss(self) -> "PrivacyLossDistribution":
        from dp_accounting.pld import privacy_loss_distribution  # takes a second to import, and few jobs need it

        tables: list[dict[object, float]] = []
        for masses in self.outcomes():
            flat = masses.ravel()
            tables.append({i: math.log(p) for i, p in enumerate(flat.tolist()) if p > 0})
        # What lies beyond the highest value looked at belongs to no common outcome: it counts as lost altogether.
        tables[0]["beyond without"] = tables[1]["beyond with"] = _LOG_TAIL
        losses = [abs(p - tables[1][i]) for i, p in tables[0].items() if i in tables[1]]
        # Rounded up: by at most 0.008 over all sketches together, but where one sketch alone may lose much.
        interval = max(8e-3 / self.n_sketches, max(losses) / _MAX_CELLS)
        once = privacy_loss_distribution.from_two_probability_mass_functions(
            *tables, value_discretization_interval=interval, symmetric=False
        )
        return once.self_compose(self.n_sketches)


def _power(log_base: Floats, exponent: int) -> Floats:
    return np.exp(exponent * log_base) if exponent else np.ones(len(log_base))


def _difference(log_at: Floats, log_under: Floats, exponent: int) -> Floats:
    """Return F(m)^exponent - F(m - 1)^exponent without cancellation; all of F(m)^exponent at the floor."""
    if exponent == 0:
        out = np.zeros(len(log_at))
        out[0] = 1.0
        return out
    return -np.exp(exponent * log_at) * np.expm1(exponent * (log_under - log_at))
