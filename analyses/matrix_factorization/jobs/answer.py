"""The answer of a matrix factorization as a job, of either form, as JSON data."""

from collections.abc import Sequence
from typing import Any

from analyses.job.ratings import digest_of_features
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.jobs.earlier import with_digest
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import OffsetPosterior


def answer(plan: SeriesPlan, model: FactorModel, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer: the model on its lattice, whose it is, which rounds were paid and opened, the privacy cost.

    All rounds are committed at once, so all of them are paid, also those after the last that was opened. A rating is
    predicted as the centre, an offset and a product of vectors; in the form sgd all offsets are 0.

    Args:
        plan: the job's plan.
        model: the model of items, or of users in the vertical setting.
        rounds: who was in each opened round, in order.
    """
    declared = plan.declared[0]
    found = {
        "analysis": plan.job.analysis,
        "setting": plan.params.setting,
        "form": plan.params.form,
        "of": "users" if plan.is_vertical else "items",
        "items_digest": None if plan.is_vertical else declared.items_digest,
        **as_data(model),
        "units": model.units,
        "centre": plan.centre,
        "bounds": list(plan.bounds),
        "rank": model.rank,
        "rounds_paid": list(range(plan.n_sums)),
        "rounds_opened": list(range(len(rounds))),
        "rounds": list(rounds),
        "privacy": plan.privacy_report(),
    }
    if plan.params.form == "sgd":
        return found
    return with_digest(found, plan.job.compute_parties if plan.is_vertical else ())


def as_data(model: FactorModel) -> dict[str, Any]:
    """Return a model on its lattice as JSON data."""
    return {"offsets": model.offsets_q.tolist(), "vectors": model.vectors_q.tolist()}


def of_features(plan: FactorJobPlan, posterior: OffsetPosterior) -> dict[str, Any]:
    """Return how public features move offsets, from noisy sums alone; nothing where the job states none."""
    features = plan.params.features
    if features is None:
        return {}
    return {"features_digest": digest_of_features(features), "regression": posterior.regression.as_data()}
