"""OpenDP in an environment of its own: what somebody who holds all records would release with it."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.peers.environment import PROGRAMS, ensure_environment, run_to_its_end

REQUIREMENTS = ("opendp==0.16.0", "numpy==2.4.6")
LAPLACE, GAUSSIAN = "OpenDP, discrete Laplace", "OpenDP, discrete Gaussian"
TIMEOUT_S = 1200.0

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """One question, as `bench/peers/opendp_releases.py` takes it.

    Attributes:
        name: of the table.
        kind: "counts" of the codes 0 .. size - 1, or "sum" of numbers clamped to 0 .. size.
        size: see there.
        epsilon, delta: for adding or removing one record.
        runs: how many releases.
        values: a whole number per record.
    """

    name: str
    kind: str
    size: int
    epsilon: float
    delta: float
    runs: int
    values: Integers = field(repr=False)


def released(questions: Sequence[Question]) -> list[dict[str, Integers]]:
    """Return for each question the releases of both mechanisms, shape (runs, entries).

    Raises:
        PeerUnavailableError: the library cannot be installed here.
        PeerRunError: it failed, or did not end in time.
    """
    python = ensure_environment("opendp", REQUIREMENTS) / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="opendp-") as name:
        folder = Path(name)
        asked = [{key: value for key, value in asdict(one).items() if key != "values"} for one in questions]
        (folder / "asked.json").write_text(json.dumps(asked))
        values: dict[str, Any] = {one.name: one.values for one in questions}
        np.savez(folder / "values.npz", **values)
        run_to_its_end([str(python), str(PROGRAMS / "opendp_releases.py"), name], TIMEOUT_S)
        found = np.load(folder / "released.npz")
        return [
            {LAPLACE: found[f"{index} laplace"], GAUSSIAN: found[f"{index} gaussian"]}
            for index in range(len(questions))
        ]
