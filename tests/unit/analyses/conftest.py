import numpy as np
import pytest
from job_builders import PARTIES, make_table


@pytest.fixture
def tables():
    rng = np.random.default_rng(7)
    return {p: make_table(p, rng.uniform(-1, 3, (50, n))) for p, n in zip(PARTIES, (2, 3, 1), strict=True)}
