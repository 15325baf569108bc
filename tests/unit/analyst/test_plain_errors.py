"""Errors of the Python client: plain words, the right name for a wrong one, and one traceback."""

import traceback

import pytest

from analyses.job.job import JobError
from analyst.client import Client
from analyst.question import PCA, LeastSquares
from service.settings import SettingsError

IN = {"bank": "people", "clinic": "visits", "shop": "buyers"}
DP = {"epsilon": 1.0, "delta": 1e-6}


def whole(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: PCA(IN, **DP, component=2), "parameters.component: there is no such field; did you mean 'c"),
        (lambda: PCA(IN, **DP, components=2, gama=3), "did you mean 'gamma'?"),
        (lambda: PCA(IN, epsilom=1.0, delta=1e-6, components=2), "did you mean 'epsilon'?"),
        (lambda: PCA(IN, **DP, components=2, deadline=5), "did you mean 'deadline_s'?"),
        (lambda: PCA(IN, **DP, components=2, colludng=1), "did you mean 'colluding'?"),
        (lambda: PCA(IN, **DP, components="two"), "parameters.components: must be a whole number, got 'two'"),
        (lambda: PCA(IN, **DP, components=object()), "must be finite numbers, texts, and lists"),
        (lambda: PCA(IN, epsilon="much", delta=1e-6, components=2), "epsilon: must be a number, got 'much'"),
        (lambda: PCA(IN, **DP, components=2, deadline_s=None), "deadline_s: must be a number, got None"),
        (lambda: PCA(IN, **DP, components=2, compute="bank"), "compute: must be a list of parties, got 'bank'"),
        (lambda: PCA(IN | {"shop": ("buyers", ["age"], "adults")}, **DP), "inputs.shop: must be the name of"),
        (lambda: PCA(IN | {"shop": ("buyers", "age")}, **DP), "inputs.shop: must be the name of a table, or (TABLE"),
        (lambda: PCA(IN | {"shop": 5}, **DP), "inputs.shop: must be the name of a table"),
        (lambda: PCA(["bank", "clinic", "shop"], **DP), "inputs: must say which table each party brings"),
        (lambda: PCA(IN, **DP, components=2, matching="open"), "matching.kind: must be 'revealed' or 'secret'"),
        (lambda: PCA({**IN, "My Bank": "x"}, **DP, components=2), "a name has 1 to 63 lower-case letters"),
        (lambda: LeastSquares(IN, **DP, label="x", ridgee=1), "there is no such field"),
    ],
)  # fmt: skip
def test_a_question_that_is_wrong_is_told_in_plain_words_with_one_traceback(ask, words):
    with pytest.raises(JobError) as caught:
        ask()
    assert words in str(caught.value)
    for foreign in ("pydantic", "During handling", "direct cause", "unpack", "Input should", "^["):
        assert foreign not in whole(caught.value)


def test_a_job_file_that_is_wrong_is_told_alike(tmp_path):
    from analyst.question import job_of

    path = tmp_path / "job.toml"
    path.write_text('analysis = "pca"\ninputs = "people"\nparametres = {}\n')
    with pytest.raises(JobError) as caught:
        job_of(path)
    assert "inputs: must be a list" in str(caught.value)
    assert "parametres: there is no such field; did you mean 'parameters'?" in str(caught.value)
    assert "direct cause" not in whole(caught.value)


def test_a_configuration_that_is_wrong_is_told_alike(tmp_path):
    path = tmp_path / "client.toml"
    path.write_text('federation = "My Club"\nfederatoin = "x"\n[coordinator]\nname = "c"\nadress = "h:1"\n')
    with pytest.raises(SettingsError) as caught:
        Client(path)
    text = str(caught.value)
    assert "federation: a name has 1 to 63 lower-case letters" in text
    assert "federatoin: there is no such field; did you mean 'federation'?" in text
    assert "coordinator.adress: there is no such field; did you mean 'address'?" in text
    assert "direct cause" not in whole(caught.value)
