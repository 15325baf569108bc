"""What a soak finds fault with: ledgers beside results."""

from collections import Counter
from types import SimpleNamespace

from bench.jobs import soak

CHARGED = {"bank": (Counter({"a": 1, "b": 1, "e": 1}), set()), "shop": (Counter({"a": 2, "b": 1}), {"c"})}


def found(monkeypatch, ended, lost):
    monkeypatch.setattr(soak, "charges_of", lambda deployment, party: CHARGED[party])
    return soak.judged(SimpleNamespace(ended=ended, lost=lost), SimpleNamespace(tables=dict.fromkeys(CHARGED)))


def test_lost_jobs_missing_charges_double_charges_and_what_is_held_are_counted(monkeypatch):
    ended = {"a": ("pca", "DONE", ""), "b": ("pca", "FAILED", ""), "d": ("pca", "DONE", "")}
    ended["e"] = ("pca", "DONE WITHOUT RESULT", "")
    expected = {"lost": 2, "not_paid": 2, "paid_twice": 1, "still_held": 1, "paid_without_result": 2}
    assert found(monkeypatch, ended, {"x": "it does not end"}) == expected


def test_growth_is_that_of_the_second_half_for_each_job():
    samples = [
        {"jobs": jobs, "bank": {"own_mb": 5.0 + max(0, jobs - 10) / 1000, "open_files": 7}} for jobs in range(20)
    ]
    assert soak.slopes(samples, "bank") == {"own_kb_per_job": 1.0, "files_per_job": 0.0}
    assert soak.slopes(samples[:3], "bank") == {}
