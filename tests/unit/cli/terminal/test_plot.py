"""`--plot`: a result without anything to draw fails no command; one that cannot be drawn does."""

import pytest
import typer

from cli.terminal.plot import plot

NO_ANSWER = {"analysis": "least-squares", "coefficients": None, "intercept": None, "note": "too noisy"}


def test_a_result_without_an_answer_has_no_plot_and_fails_no_command(tmp_path, capsys):
    fields = NO_ANSWER | {"features": ["a.x"], "label": "c.z"}
    plot(fields, tmp_path / "plot.svg")
    assert capsys.readouterr().err == "no plot: there is no answer to draw: too noisy\n"
    assert list(tmp_path.iterdir()) == []


def test_a_result_of_another_version_fails_the_command(tmp_path, capsys):
    with pytest.raises(typer.Exit) as ended:
        plot(NO_ANSWER, tmp_path / "plot.svg")
    assert ended.value.exit_code == 1
    assert "it is not as this version writes it" in capsys.readouterr().err
