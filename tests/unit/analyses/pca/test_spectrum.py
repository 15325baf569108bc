"""What a result says of its own error, against draws of the noise: the release itself without the shares."""

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_table

from analyses.pca import protocol as pca
from analyses.pca.spectrum import _errors, spectrum
from analyses.second_moments.centred import CentredMoments
from bench.baselines.components import moment_with_constant
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
    """The share of intervals that hold the truth, NaN for components that have none, and the components above noise."""
    hits, above = [], []
    for run in range(runs):
        found, along = releases.draw(run)
        held = (found.intervals[:, 0] <= along) & (along <= found.intervals[:, 1])
        hits.append(np.where(np.isnan(found.intervals[:, 0]), np.nan, held))
        above.append(found.n_above_noise)
    return np.array(hits), np.mean(above)


def test_intervals_hold_the_variance_along_the_released_components_about_as_often_as_they_say():
    held, above = coverage(Releases(40_000), 40)
    assert above >= 3
    assert np.isfinite(held[:, 0]).all()
    assert np.nanmean(held) >= 0.85  # 0.95, less three standard errors


def test_a_component_close_to_another_or_to_the_noise_has_no_interval():
    releases = Releases(100_000)
    found, _ = releases.draw(0)
    gaps = -np.diff(found.eigenvalues[:5])
    apart = np.minimum(gaps, np.append(np.inf, gaps[:-1])) >= 6 * found.noise_edge
    clear = found.eigenvalues[:4] > 2 * found.noise_edge
    assert np.isfinite(found.intervals[:, 0]).tolist() == (apart & clear).tolist()
    assert 1 <= np.isfinite(found.intervals[:, 0]).sum() < 4
    releases.exact[:-1, :-1] += 1e4 * np.eye(20)  # all eigenvalues are far above the noise now, and as close as before
    closer, _ = releases.draw(0)
    assert np.isnan(closer.intervals[-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [40_000, 100_000])
def test_intervals_of_components_hold_in_90_to_99_per_cent(n_rows):
    held, _ = coverage(Releases(n_rows), 120)
    assert 0.9 <= np.nanmean(held[:, 0]) <= 0.99
    for place in range(1, 4):
        if np.isfinite(held[:, place]).sum() >= 60:
            assert 0.9 <= np.nanmean(held[:, place]) <= 0.99


def test_an_interval_is_not_trivial():
    found, along = Releases(100_000).draw(1)
    assert (np.diff(found.intervals, axis=1)[:1, 0] < 0.4 * along[:1]).all()


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


class Wide:
    """What `spectrum` reads of a plan and a noisy matrix of many columns, whose mean lies along none of its axes."""

    def __init__(self, n, values, epsilon=1.0):
        rng = np.random.default_rng(2)
        self.vectors = np.linalg.qr(rng.normal(size=(n, n)))[0].T
        tables = [
            make_table(p, rng.uniform(-1, 1, (2000, len(block))))
            for p, block in zip(PARTIES, np.array_split(np.arange(n), 3), strict=True)
        ]
        privacy = {"epsilon": epsilon, "delta": 1e-6, "view": "coordinator"}
        parameters = {"components": len(values), "max_rows": 2000}
        self.plan = pca.plan(make_job(parameters=parameters, privacy=privacy), [t.schema for t in tables])
        deviation, c = self.plan.noise_deviation, self.plan.constant * self.plan.unit
        self.whole = np.append(np.array(values) * deviation * n**0.5, np.full(n - len(values), deviation))
        mean = 0.3 * c * rng.normal(size=n) / n**0.5
        self.centre = CentredMoments(np.zeros((n, n)), mean, 1500.0, float(mean @ mean) / c**2)

    def errors(self):
        return _errors(self.vectors, self.whole, self.centre, self.plan)


def test_noise_of_many_columns_is_drawn_in_few_coordinates_and_says_the_same(monkeypatch):
    """Beside dense draws, of which there are enough to tell a tenth of the deviation."""
    wide = Wide(150, (40.0, 25.0, 8.0, 5.0))
    monkeypatch.setattr("analyses.pca.spectrum.COORDINATES", 64)
    monkeypatch.setattr("analyses.pca.spectrum.DRAWS_OF_WIDE", 400)
    few = wide.errors()
    monkeypatch.setattr("analyses.pca.spectrum.WIDE", 1000)
    dense = wide.errors()
    errors = dense[1] * np.sqrt(1 / 120 + 1 / 400)
    assert (np.abs(few[0] - dense[0]) < 4 * errors).all()
    np.testing.assert_allclose(few[1], dense[1], rtol=4 * np.sqrt(1 / 240 + 1 / 800))
