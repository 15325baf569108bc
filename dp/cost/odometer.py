"""An odometer: what jobs have cost so far, at every moment at once, however jobs and the moment were chosen.

A filter promises something about a whole period, for a budget that was fixed before. An odometer reads an epsilon that
grows with each job. Its reading is larger than that of the same jobs fixed beforehand, as it holds for whoever stops by
what was seen; near its end it may be larger than the budget, whose own promise holds all the same.

CLAIM. Jobs are created one after the other as in `dp.cost.renyi_filter.RenyiFilter`, and run at the same time. P and Q
are the distributions of all that is seen on two neighbouring tables. Under P, with probability at least 1 - delta,

    ln(P / Q) of what was seen so far  <=  the reading for the jobs created so far, at all moments.

PROOF. Take one order a with its part delta_k. Given the table, each job has randomness of its own, and what is asked
and created next has the same probability under P and Q given what was seen. So P / Q of what was seen is the product,
over the jobs, of the ratio p / q of what each has shown. For one job let V be the largest mean under P of (p / q)^(a -
1) at its end, given what it has shown so far, over all ways to go on asking it. To ask nothing more is one of them, so
V is at least (p / q)^(a - 1) of what it has shown; and at its creation V is at most exp((a - 1) c(a)), c its Renyi
curve, which bounds the divergence however it is asked. Hence the product of all V times exp(-(a - 1) sum of c_j(a)) is
a nonnegative supermartingale under P that begins at 1: an answer of a job moves its own V only, whose mean does not
rise, and a job that is created brings a factor of at most 1. By Ville's inequality it reaches 1 / delta_k at any time
with probability delta_k at most. Where it never does, ln(P / Q) < sum of c_j(a) + ln(1 / delta_k) / (a - 1) at all
moments. Parts add up to at most delta over the orders. QED ([RRUV16] has the notion, [WRRW23] such readings.)
"""

import math

import numpy as np

from dp.cost.accounting import ORDERS, Floats


def reading(curve: Floats, n_terms: int, main_order: int, delta: float) -> float:
    """Return the reading of an odometer, rounded up; 0 before the first job.

    Args:
        curve: at each of `dp.cost.accounting.ORDERS`, the floating-point sum of `n_terms` nonnegative curves.
        n_terms: how many releases were added.
        main_order: fixed before the first job. It has half of delta, twice the order a quarter, and so on.
        delta: probability with which the loss may ever exceed the reading; fixed before the first job.
    """
    if n_terms == 0:
        return 0.0
    found, order, log = math.inf, main_order, -math.log(delta)
    while order <= ORDERS[-1]:
        log += math.log(2)
        at = int(np.searchsorted(ORDERS, order, side="right")) - 1  # the nearest order below, fixed as well
        used = float(curve[at]) * (1 + 2.0**-40 + n_terms * 2.0**-52)
        found = min(found, used + log / (float(ORDERS[at]) - 1))
        order *= 2
    return found * (1 + 2.0**-40)
