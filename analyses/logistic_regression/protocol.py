"""Logistic regression on a vertically partitioned table: SLR [SPCA24, appendix B] with its privacy repaired.

Every party holds some columns of the same rows, one of them the label. Two methods. `moments`, which no paper has,
releases the second moments of features and label once, under shares, and all weights follow from them. `gradient` is
the paper's: in each step the parties multiply their shares of a batch that is unknown to the coordinator with the
public weights, add noise that no party knows, and open only the noisy gradient of the batch to the coordinator, which
updates the weights and sends them back.

    appendix B                                       function
    the clients quantise and share their columns     `LabelledRows.quantise`, `JointComputation.hold_rows`
    all draw the same Poisson batch                  `BoundedPoisson.samples`, from a key of the parties
    equation 22, the sigmoid's Taylor polynomial     `TaylorGradient.factors`
    the sums over a batch, multiplied under shares   `add_part`
    each client adds its noise                       `JointComputation.draw`, `JointComputation.noise`
    the server obtains the noisy sums                `JointComputation.open_noisy`, `TaylorGradient.gradient_of`
    the server's step, and the new weights           `Descent.follow`; at the parties `receive_weights`
    no paper: equation 22 for all weights at once    `party`, `open_noisy_gram`, `fit`

Differences from the paper (docs/analyses/logistic-regression.md): one release tells the first-order gradient at all
weights; with `gradient`, one gradient is opened instead of three sums (the paper's three are a choice); rows are
rounded within public bounds of each party; the noise of N - t parties suffices; what a coalition sees is
bounded by the largest number of batches that a record can enter, not by the mean; batch sizes stay hidden; all rows
take part in every step unless a job asks for batches; the third order of the Taylor polynomial is a choice.
"""

from typing import Any

from analyses.job.analysis import Analysis, by_plan
from analyses.job.job import Job
from analyses.job.survival import Survival, every_party_needed, products_opened_once
from analyses.logistic_regression.gradient_plan import GradientPlan
from analyses.logistic_regression.gradient_steps import follow_steps, take_part_in_steps
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan, rounding_of
from analyses.logistic_regression.parameters import LogisticRegressionParams
from analyses.logistic_regression.plan import LogisticRegressionPlan, plan
from analyses.logistic_regression.reference import reference_by_gradients, reference_by_moments, scaled_rows
from analyses.logistic_regression.uncertainty import (
    forecast,
    forecast_of_gradients,
    signal_of_gradients,
    standard_errors,
)
from analyses.logistic_regression.weights import in_own_units, labelled_moments, weights_of
from analyses.second_moments.forecast import signal_of_regression
from analyses.second_moments.noisy_gram import open_noisy_gram, rows_told
from analyses.second_moments.party import party as party_of_second_moments
from analyses.second_moments.work import work
from mpc.arithmetic.surplus import survivable
from mpc.protocol.session import Session

__all__ = [
    "ANALYSIS",
    "LogisticRegressionParams",
    "LogisticRegressionPlan",
    "coordinator",
    "in_own_units",
    "party",
    "plan",
    "reference",
    "scaled_rows",
]


party = by_plan({LabelledMomentsPlan: party_of_second_moments, GradientPlan: take_part_in_steps})
"""A party's part. Of its labels `mapped_values` counts those that were neither 0 nor 1 and became the nearer of the
two."""

reference = by_plan({LabelledMomentsPlan: reference_by_moments, GradientPlan: reference_by_gradients})
"""The weights and the intercept where somebody holds all tables."""


async def coordinator(session: Session, plan: LogisticRegressionPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the moments and solve, or open noisy gradients and follow them.

    Returns:
        JSON-able: `method`; `label`; `columns`, and `weights` of them such that intercept + sum weights * values are
        the log odds of label 1, values in their own units and clipped to `bounds`, pairs of the columns' public bounds;
        `intercept`; `wrong_shares_from`, names of the parties whose corrupted shares were corrected; `privacy`, the
        report. Of `gradient` besides `iterations`; of `moments` what `open_and_fit` says.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    found = await _FOUND(session, plan)
    columns = [column for owner in plan.owners for column in plan.features_of(owner).columns]
    return {
        "analysis": "logistic-regression",
        "method": plan.params.method,
        "label": plan.params.label,
        "columns": list(plan.feature_names),
        "bounds": [[column.lower, column.upper] for column in columns],
        **found,
        "privacy": plan.privacy_report(),
    }


async def open_and_fit(session: Session, plan: LabelledMomentsPlan) -> dict[str, Any]:
    """Open the noisy moments, and return the weights that follow from them.

    Returns:
        What the result says of this method: `weights` and `intercept`, in the units of the columns, with their
        `standard_errors` and `intercept_standard_error`, None where there are no weights; `n_rows`, about the number of
        rows, and `n_rows_standard_error`; `mean_label`, the noisy share of label 1;
        `log_odds`, their `mean` and `deviation` over the rows; `ridge`, `smallest_eigenvalue`,
        `noise_level` and `worst_rounding` of second moments, in units of rows of norm 1; `note`, what is to be said
        about the answer; `wrong_shares_from`.
    """
    opened = await open_noisy_gram(session, plan)
    moments = labelled_moments(plan, opened.matrix)
    found = fit(moments)
    weights, intercept = weights_of(plan, found)
    errors = await session.compute(standard_errors, plan, moments, found)
    return {
        "weights": weights.tolist(),
        "intercept": intercept,
        "standard_errors": errors and errors[0],
        "intercept_standard_error": errors and errors[1],
        **rows_told(opened.matrix, plan),
        "mean_label": found.mean_label,
        "log_odds": {"mean": found.log_odds_mean, "deviation": found.log_odds_deviation},
        "ridge": found.ridge,
        "smallest_eigenvalue": found.smallest_eigenvalue,
        "noise_level": moments.noise_level,
        "worst_rounding": rounding_of(plan),
        "note": found.note,
        "wrong_shares_from": opened.wrong_shares_from,
    }


_FOUND = by_plan({LabelledMomentsPlan: open_and_fit, GradientPlan: follow_steps})
"""What the coordinator finds by the method of a plan."""


def survival(job: Job) -> Survival:
    """Return that by `moments` a few parties may drop out, and by `gradient` none.

    A few corrupted shares of what is opened can be corrected.
    """
    if job.parameters.get("method") != "gradient":
        return products_opened_once(job)
    n = len(job.compute_parties)
    _, may_lie = survivable(n, 2 * job.t)
    return every_party_needed(job, f"every step needs the noise of all {n}, so none may drop out", may_lie=may_lie)


ANALYSIS = Analysis(
    names=("logistic-regression",),
    parameters=LogisticRegressionParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/logistic-regression.md",
    demo="logistic-regression",
    own_forecast=by_plan({LabelledMomentsPlan: forecast, GradientPlan: forecast_of_gradients}),
    own_work=work,
    signal=by_plan({LabelledMomentsPlan: signal_of_regression, GradientPlan: signal_of_gradients}),
    reference=reference,
    synonyms={"target": "label", "y": "label"},
    matching=("revealed", "secret"),
)
