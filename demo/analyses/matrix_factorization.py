"""`moiety demo matrix-factorization`: errors on ratings that no party has, over epsilon, with a plot.

Each epsilon is a job of its own over the services. Beside it stands what somebody could do who has all ratings, what
each party could do alone, and the form of the paper [SGDMF22] with the noise that it needs for the same privacy
(`analyses.matrix_factorization.descent`). The last runs in the demo's process, with all members in it; its rates were
chosen by its errors here, which favours it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import PrivacyTarget
from analyses.matrix_factorization import protocol as factorization
from analyses.matrix_factorization.baseline import central_non_private, local_non_private
from analyses.matrix_factorization.descent.descent_plan import DescentParams, plan_descent
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember, fine_tuned
from analyses.matrix_factorization.descent.in_process_steps import LocalSteps
from analyses.matrix_factorization.descent.projected_descent import descend, first_embeddings
from analyses.matrix_factorization.horizontal import item_rows, solve_users
from analyses.matrix_factorization.job_plan import plan as plan_of_job
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.reference import reference
from cli.terminal.output import say
from demo.data_sets.ratings import BOUNDS, N_LECTURERS, N_STUDENTS, PER_STUDENT, RatingParties
from demo.error_plot import plot_errors
from demo.job import DemoRun, example_job, run_on
from demo.text import epsilon_against, job_line, next_line
from entropy import SystemEntropy

EPSILONS = (8.0, 4.0, 1.0)
"""Run with, beside that of the job."""

NEXT_TO_NO_NOISE = 1e6
"""An epsilon whose estimates hardly shrink: for what the rounds come to without noise."""

DESCENT: dict[str, Any] = {"rank": 8, "theta": PER_STUDENT, "steps": 5, "sampling_rate": 1.0, "divisor": 3000.0}
"""Of the paper's form: the best of some dozens by the errors on this data set."""

RELEASED, OWN, PAPER = "released", "at each party", "paper's form"
NOBODY, POOLED, ALONE = "no noise", "all ratings in one place", "each party alone"

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FactorOutcome:
    """What the demo shows. Errors are mean squared ones of the ratings in no table.

    Attributes:
        job_ids: epsilon to the job.
        n_ratings: of all parties together.
        n_held_out: in no table.
        rank: of the job with the example's epsilon.
        errors: label to epsilon to error: `released`, of all users solved at their party with what was released; `at
            each party`, with what its own exact ratings make of that, which is never sent; `paper's form`.
        without_noise: label to error: `no noise`, of the same rounds; `all ratings in one place`; `each party alone`.
        privacy: of the job with the example's epsilon.
        seconds: of that job, from submission to the result.
        bytes_sent: party to bytes, of that job.
        files: of the plot and of all numbers.
    """

    job_ids: Mapping[str, str]
    n_ratings: int
    n_held_out: int
    rank: int
    errors: Mapping[str, Mapping[str, float]]
    without_noise: Mapping[str, float]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]
    files: Mapping[str, str]


def compare(run: DemoRun, out: Path) -> FactorOutcome:
    """Run the job with other epsilons on the same services and compare; write plot and numbers to the folder `out`."""
    data = run.data
    assert isinstance(data, RatingParties)
    asked = run.job.privacy
    runs = {asked.epsilon: run}
    for epsilon in EPSILONS:
        if epsilon not in runs:
            say(f"     the same with epsilon {epsilon:g}")
            rank = {"parameters.rank": run.job.parameters.get("rank")}
            job = example_job("matrix-factorization", {"privacy.epsilon": epsilon, **rank})
            runs[epsilon] = run_on(run.deployment, job, data)
    ordered = dict(sorted(runs.items(), reverse=True))
    say("     and the paper's form, in this process")
    scores = Scores(data)
    errors = {
        RELEASED: {key(e): scores.released(one.result) for e, one in ordered.items()},
        OWN: {key(e): scores.own(reports_of(one)) for e, one in ordered.items()},
        PAPER: {key(e): scores.of_descent(one.job.privacy, run.job.t) for e, one in ordered.items()},
    }
    files = {"plot": out / "matrix-factorization.png", "json": out / "matrix-factorization.json"}
    outcome = FactorOutcome(
        job_ids={key(e): one.view.job_id for e, one in ordered.items()},
        n_ratings=len(data.pooled),
        n_held_out=len(data.held_out),
        rank=run.result["rank"],
        errors=errors,
        without_noise=scores.without_noise(run),
        privacy=run.result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
        files={name: str(path) for name, path in files.items()},
    )
    out.mkdir(parents=True, exist_ok=True)
    plot_errors(outcome.errors, outcome.without_noise, files["plot"], title="Ratings that no party has")
    files["json"].write_text(json.dumps(asdict(outcome), indent=2) + "\n")
    return outcome


def key(epsilon: float) -> str:
    """Return an epsilon as text, as JSON has it for a key."""
    return f"{epsilon:g}"


def reports_of(run: DemoRun) -> dict[str, dict[str, Any]]:
    """Return party to what it keeps of a job for itself; only a demo reads it on behalf of all."""
    return {party: run.deployment.report(party, run.view.job_id)["kept"] for party in run.data.tables}


class Scores:
    """Errors on the ratings in no table.

    Args:
        data: what the parties hold, and what nobody holds.
    """

    def __init__(self, data: RatingParties) -> None:
        self._data = data
        self._centre = sum(BOUNDS) / 2

    def released(self, result: Mapping[str, Any]) -> float:
        """Return the error of what a job released."""
        return self._of_model(model_of(result))

    def own(self, kept: Mapping[str, Mapping[str, Any]]) -> float:
        """Return the error of what all parties keep, each on its own users."""
        return self._of_parties(
            {party: self._predicted(model_of(one), self._ratings(party), party) for party, one in kept.items()}
        )

    def without_noise(self, run: DemoRun) -> dict[str, float]:
        """Return the errors of the same rounds without noise, of all ratings in one place, and of parties alone."""
        tables = self._data.in_memory()
        free = run.job.privacy.model_copy(update={"epsilon": NEXT_TO_NO_NOISE})
        job = run.job.model_copy(update={"target": free})
        plan = plan_of_job(job, [table.schema for table in tables])
        rng, held_out = np.random.default_rng(1), self._data.held_out
        pooled = central_non_private(self._ratings(), plan.rank, rng)
        parties = list(self._data.tables)
        alone = local_non_private([self._ratings(party) for party in parties], plan.rank, rng)
        of_parties = {}
        for party, fitted in zip(parties, alone, strict=True):
            rows = self._data.of_party(held_out, party)
            of_parties[party] = fitted.predict(rows[:, 0], rows[:, 1])
        return {
            NOBODY: self._of_model(reference(tables, plan)),
            POOLED: self._error(pooled.predict(held_out[:, 0], held_out[:, 1]), held_out),
            ALONE: self._of_parties(of_parties),
        }

    def of_descent(self, target: PrivacyTarget, colluding: int) -> float:
        """Return the error of the paper's form with its users refitted at the end."""
        n = len(self._data.tables)
        params = DescentParams(
            setting="horizontal", n_users=N_STUDENTS, n_items=N_LECTURERS, largest=int(BOUNDS[1]), **DESCENT
        )
        plan = plan_descent(
            params, Members(n, colluding, n), epsilon=target.epsilon, delta=target.delta, view=target.view
        )
        entropy, ratings = SystemEntropy(), self._ratings(centre=0.0)
        items = first_embeddings(plan, N_LECTURERS, "demo")
        together = HorizontalMember(plan, ratings, items, entropy)  # users throw their coins one by one
        found = descend(plan, items, LocalSteps(plan, [together], entropy, together=True))
        users, vectors = fine_tuned(plan, ratings, found)
        rows = self._data.held_out
        return self._error(np.einsum("ij,ij->i", users[rows[:, 0]], vectors[rows[:, 1]]) - self._centre, rows)

    def _ratings(self, party: str | None = None, centre: float | None = None) -> Ratings:
        """Return the ratings of a party or of all; a user has its number in all tables together."""
        rows = self._data.pooled if party is None else self._data.of_party(self._data.pooled, party)
        deviations = rows[:, 2].astype(np.float64) - np.float64(self._centre if centre is None else centre)
        return Ratings.of(rows[:, 0], rows[:, 1], deviations, N_STUDENTS, N_LECTURERS)

    def _of_model(self, model: FactorModel) -> float:
        rows = self._data.held_out
        return self._error(self._predicted(model, self._ratings(), None), rows)

    def _predicted(self, model: FactorModel, ratings: Ratings, party: str | None) -> Floats:
        rows = self._data.held_out if party is None else self._data.of_party(self._data.held_out, party)
        solved = solve_users(model, ratings, factorization.PRIOR)
        of_items = (solved[rows[:, 0]] * item_rows(model)[rows[:, 1]]).sum(axis=1)
        return np.asarray(model.offsets[rows[:, 1]] + of_items)

    def _of_parties(self, predicted: Mapping[str, Floats]) -> float:
        """Return the error of all parties' predictions together."""
        rows = {party: self._data.of_party(self._data.held_out, party) for party in predicted}
        return self._error(np.concatenate(list(predicted.values())), np.concatenate(list(rows.values())))

    def _error(self, deviations: Floats, rows: Numbers) -> float:
        return float(np.mean((np.clip(deviations + self._centre, *BOUNDS) - rows[:, 2]) ** 2))


def model_of(found: Mapping[str, Any]) -> FactorModel:
    """Return the model of a result, or of what a party keeps."""
    offsets = np.array(found["offsets"], dtype=np.int64)
    return FactorModel(offsets, np.array(found["vectors"], dtype=np.int64).reshape(len(offsets), -1), found["units"])


def text_of(outcome: FactorOutcome) -> str:
    """Return what a person reads."""

    def rows() -> Iterator[str]:
        for epsilon in outcome.job_ids:
            yield f"  {epsilon:>9}" + "".join(f"{of[epsilon]:16.3f}" for of in outcome.errors.values())

    privacy, without = outcome.privacy, outcome.without_noise
    head = "".join(f"{label:>16}" for label in outcome.errors)
    return f"""
Matrix factorization of {outcome.n_ratings:,} ratings of three parties, rank {outcome.rank}

  mean squared error on {outcome.n_held_out:,} ratings that are in no table: only a demo has them
  {"epsilon":>9}{head}
{chr(10).join(rows())}
  {"none":>9}{without[NOBODY]:16.3f}
  without any privacy: {POOLED} {without[POOLED]:.3f}, {ALONE} {without[ALONE]:.3f}

  {RELEASED}: all parties learn it, and solve their own users with it. {OWN}: improved by its own exact ratings,
  which nobody is sent; `moiety party recommend` uses it. The fewer ratings a party has, the more it gains by those of
  others: docs/analyses/matrix-factorization.md, "When it is worth it".

  privacy of each person in one party's table, delta {privacy["delta"]:g}
    epsilon {epsilon_against(privacy, "coordinator")} against the coordinator alone
    epsilon {epsilon_against(privacy, "coalition")} against the coordinator and one party

{job_line(outcome.seconds, outcome.bytes_sent)}
  plot      {outcome.files["plot"]}
  numbers   {outcome.files["json"]}
{next_line("matrix-factorization --rank 4 --epsilon 8", "do factors pay for their rounds here?")}
"""
