"""What principal components of a wide table take the coordinator once the matrix is open: intervals and noise edge.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m bench.scale.wide_spectrum [COLUMNS]

A made-up noisy matrix of three parties' columns, by default 3,703 as CiteSeer has, with four components above the
noise, and 2,110 rows: what a job with `center` does with it. Prints processor seconds and the peak of memory as JSON.
"""

import argparse
import json
import time

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.pca import protocol as pca
from analyses.pca.spectrum import spectrum
from bench.datasets.order import trusted_order
from bench.machine import describe_machine, peak_resident_bytes

PARTIES = ("one", "two", "three")
N_ROWS, K, EPSILON = 2110, 5, 16.0
SIZES = (60.0, 40.0, 24.0, 8.0)
"""Of the components, in deviations of the noise times the square root of the columns."""


def plan_of(n_columns: int) -> pca.PcaPlan:
    """Return the plan of a job on so many columns of three parties."""
    parts = np.array_split(np.arange(n_columns), len(PARTIES))
    schemas = [
        BlockSchema(
            party=party,
            columns=tuple(ColumnSchema(name=f"x{at}", lower=0, upper=1) for at in part.tolist()),
            rows=(N_ROWS, N_ROWS),
        )
        for party, part in zip(PARTIES, parts, strict=True)
    ]
    job = Job.model_validate(
        {
            "analysis": "pca",
            "inputs": [{"party": party, "table": "papers"} for party in PARTIES],
            **trusted_order(schemas),
            "privacy": {"epsilon": EPSILON, "delta": 1e-5, "view": "coordinator"},
            "parameters": {"components": K, "max_rows": N_ROWS},
        }
    )
    return pca.plan(job, schemas)


def measure(n_columns: int) -> dict[str, float]:
    """Return what one spectrum takes."""
    plan, rng = plan_of(n_columns), np.random.default_rng(0)
    deviation, constant = plan.noise_deviation, plan.constant * plan.unit
    matrix = rng.normal(size=(n_columns + 1, n_columns + 1)) * deviation
    matrix = (matrix + matrix.T) / 2**0.5
    for size in SIZES:
        vector = rng.normal(size=n_columns)
        vector /= np.linalg.norm(vector)
        matrix[:-1, :-1] += size * deviation * n_columns**0.5 * np.outer(vector, vector)
    matrix[-1, -1] = constant**2 * N_ROWS
    began_s = time.process_time()
    found = spectrum(matrix, plan)
    assert found.intervals is not None
    return {
        "columns": n_columns,
        "processor_s": round(time.process_time() - began_s, 1),
        "peak_resident_bytes": peak_resident_bytes("self"),
        "intervals": int(np.isfinite(found.intervals[:, 0]).sum()),
        "above_noise": found.n_above_noise,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("columns", type=int, nargs="?", default=3703)
    print(json.dumps(measure(parser.parse_args().columns) | {"machine": describe_machine()}, indent=1))


if __name__ == "__main__":
    main()
