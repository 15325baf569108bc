"""What a result says of its own error, against draws of the noise: the release itself without the shares."""

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_table

from analyses.pca import protocol as pca
from analyses.pca.baseline import moment_with_constant
from analyses.pca.spectrum import spectrum
from entropy import InsecureTestEntropy
from mpc.arithmetic.gram import expand_triangle


class Releases:
    """Releases of one table of 20 columns whose scatter about the mean has the eigenvalues of this class."""

    VARIANCES = (0.03, 0.012, 0.006, 0.001, *[1e-4] * 16)

    def __init__(self, n_rows, parameters=None, epsilon=8.0):
        rng = np.random.default_rng(8)
        axes = np.linalg.qr(rng.normal(size=(20, 20)))[0]
        rows = rng.uniform(-1, 1, (n_rows, 20)) * np.sqrt(3 * np.array(self.VARIANCES)) @ axes.T
        values = np.clip(0.3 + 0.4 * rng.uniform(size=20) + rows, 0, 1) * 4 - 1
        tables = [make_table(p, block) for p, block in zip(PARTIES, np.split(values, [8, 15], axis=1), strict=True)]
        parameters = {"components": 4, "max_rows": 10**6, **(parameters or {})}
        privacy = {"epsilon": epsilon, "delta": 1e-6, "view": "coordinator"}
        self.plan = pca.plan(make_job(parameters=parameters, privacy=privacy), [t.schema for t in tables])
        self.n_rows, self.scatter = n_rows, pca.reference(tables, self.plan)
        constant = self.plan.constant * self.plan.unit
        self.exact = moment_with_constant(pca.clipped_rows(tables, self.plan), constant)

    def draw(self, run):
        """Return the spectrum of one release, and the true variances along its components."""
        mechanism = self.plan.mechanism
        draws = [mechanism.draw(InsecureTestEntropy(f"{run} {i}")) for i in range(self.plan.n_parties)]
        noise = expand_triangle(np.sum(draws, axis=0).astype(np.float64), mechanism.n_columns)
        found = spectrum(self.exact + noise * self.plan.unit**2, self.plan)
        along = np.einsum("ki,ij,kj->k", found.components, self.scatter, found.components) / self.n_rows
        return found, along


def coverage(releases, runs):
    hits, above = [], []
    for run in range(runs):
        found, along = releases.draw(run)
        hits.append((found.intervals[:, 0] <= along) & (along <= found.intervals[:, 1]))
        above.append(found.n_above_noise)
    return np.mean(hits, axis=0), np.mean(above)


def test_intervals_hold_the_variance_along_the_released_components_about_as_often_as_they_say():
    covered, above = coverage(Releases(40_000), 40)
    assert above >= 3
    assert covered.min() >= 0.85  # 0.95, less three standard errors


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [40_000, 100_000])
def test_intervals_of_components_well_above_the_noise_cover_90_to_99_per_cent_and_others_no_less(n_rows):
    covered, _ = coverage(Releases(n_rows), 200)
    assert (covered[:2] >= 0.9).all()
    assert (covered[:2] <= 0.99).all()
    assert covered.min() >= 0.9


def test_an_interval_is_not_trivial():
    found, along = Releases(100_000).draw(1)
    assert (np.diff(found.intervals, axis=1)[:2, 0] < 0.4 * along[:2]).all()


def test_a_table_without_any_variance_shows_nothing_above_the_noise_in_19_of_20_releases():
    releases = Releases(3000)
    releases.exact[:-1, :-1] -= releases.scatter
    above = [releases.draw(run)[0].n_above_noise for run in range(40)]
    assert np.mean(np.array(above) > 0) < 0.16


def test_a_table_that_does_not_vary_shows_nothing_above_the_noise_without_centring_or_with_scaling_either():
    releases = Releases(3000, {"scale": True})
    releases.exact[:-1, :-1] -= releases.scatter
    found = releases.draw(0)[0]
    assert found.left_out.sum() >= 18
    releases = Releases(20_000, {"center": False})
    releases.exact[:] = 0.0
    assert np.mean([releases.draw(run)[0].n_above_noise > 0 for run in range(40)]) < 0.16
