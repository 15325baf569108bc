"""Principal components of the KDD connections: the variance captured, beside central privacy and local noise."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from analyses.job.job import Job
from analyses.pca import protocol as pca
from analyses.pca.protocol import leading_components
from analyses.pca.reference import captured_variance
from bench.analyses.table import Row
from bench.datasets.tables import kdd_tables
from bench.utility.moment_runs import QUICK_ROWS, example_over_services, spent_by, tables_of_example
from bench.utility.pca_utility import EXAMPLE, measure, without_norm_bounds
from demo.job import example_job

EPSILONS = (0.5, 1.0, 2.0, 4.0)
RUNS = 5
METRIC = "share of the variance captured, more is better"
LOCAL = "local noise (the paper's baseline)"


def compared(quick: bool) -> Iterator[Row]:
    """Yield the rows of the released distribution; time and bytes are of a job over services, at any epsilon."""
    services = over_services(quick)
    yield services
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        tables = [table for _, table in kdd_tables(Path(folder), rows=QUICK_ROWS if quick else None)]
    epsilons = EPSILONS[1:2] if quick else EPSILONS
    job = Job.from_toml(EXAMPLE.read_text())
    report = measure(job, tables, delta=1e-5, epsilons=epsilons, runs=1 if quick else RUNS, seed=0)
    for found in report["epsilons"]:
        yield Row(
            analysis="pca",
            dataset=f"KDD Cup 99, {report['components']} components",
            epsilon=found["epsilon"],
            metric=METRIC,
            mpc=found["ours"],
            central=found["central"],
            non_private=report["exact"],
            mpc_spent=services.mpc_spent,
            others={LOCAL: found["local_noise"]},
            note=f"the paper's form is the one inside MPC; means of {report['runs']}; coordinator's view, delta 1e-5; "
            "time and bytes of the job over three services",
        )


def over_services(quick: bool) -> Row:
    """Return the example over three services."""
    changes = {"privacy.view": "coordinator"}
    data, (run,) = example_over_services("pca", [changes], QUICK_ROWS if quick else None)
    job = example_job("pca", changes)
    tables = tables_of_example(data, job)
    schemas = [t.schema for t in tables]
    moment = pca.reference(tables, pca.plan(without_norm_bounds(job), schemas))
    k = len(run.result["components"])
    return Row(
        analysis="pca",
        dataset="KDD Cup 99, examples/pca.toml",
        epsilon=job.privacy.epsilon,
        metric=METRIC,
        mpc=captured_variance(moment, np.array(run.result["components"])),
        non_private=captured_variance(moment, leading_components(moment, k)[1]),
        mpc_spent=spent_by(run),
        note="one run over three services; coordinator's view",
    )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {"KDD Cup 99": compared}
