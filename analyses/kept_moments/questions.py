"""The questions that released second moments answer, by name, and what each takes."""

from collections.abc import Mapping
from typing import Any

from analyses.kept_moments.answer import Answer, Question, answered
from analyses.kept_moments.canonical import canonical_correlation
from analyses.kept_moments.components import components
from analyses.kept_moments.discriminant import discriminant
from analyses.kept_moments.factors import factors
from analyses.kept_moments.logistic import logistic
from analyses.kept_moments.models.choices import multinomial, ordinal
from analyses.kept_moments.models.contrasts import contrasts, stepwise
from analyses.kept_moments.models.rates import gamma, negative_binomial, poisson
from analyses.kept_moments.regression import regress, ridge
from analyses.kept_moments.statistics import correlation, covariance, inflation, means, partial_correlation
from analyses.kept_moments.synthetic.question import synthetic
from analyses.kept_moments.tables import crosstab, group_means, odds_ratios
from analyses.kept_moments.variance import anova
from analyses.second_moments.released import ReleasedMoments

QUESTIONS: Mapping[str, Question] = {
    "means": Question(means, ("columns",), (), "mean and standard deviation of each column"),
    "covariance": Question(covariance, ("columns",), (), "covariance of each pair of columns"),
    "correlation": Question(correlation, ("columns",), (), "Pearson's correlation of each pair of columns"),
    "partial-correlation": Question(partial_correlation, ("columns",), (), "correlation of pairs, given the others"),
    "inflation": Question(inflation, ("columns",), (), "variance inflation factors and the condition number"),
    "regress": Question(
        regress,
        ("label", "columns", "ridge", "weight"),
        ("label",),
        "linear regression of any column on others, and on terms of them",
    ),
    "ridge": Question(
        ridge, ("label", "columns"), ("label",), "the same with the ridge that is expected to miss least"
    ),
    "logistic": Question(logistic, ("label", "columns", "normal"), ("label",), "logistic regression of any yes or no"),
    "poisson": Question(
        poisson,
        ("label", "columns", "offset", "normal"),
        ("label",),
        "Poisson regression of a count, with an offset if asked",
    ),
    "negative-binomial": Question(
        negative_binomial,
        ("label", "columns", "offset", "normal"),
        ("label",),
        "the same with errors of a count that varies more, by m + d m^2",
    ),
    "gamma": Question(
        gamma,
        ("label", "columns", "offset", "normal"),
        ("label",),
        "log-linear regression of a positive number whose deviation grows with its mean",
    ),
    "multinomial": Question(
        multinomial, ("label", "columns", "normal"), ("label",), "logistic regression of the values of a category"
    ),
    "ordinal": Question(
        ordinal,
        ("label", "columns", "normal"),
        ("label",),
        "proportional odds of a category whose values have an order",
    ),
    "anova": Question(anova, ("value", "columns"), ("value", "columns"), "analysis of variance by several terms"),
    "contrasts": Question(
        contrasts, ("value", "by", "columns"), ("value", "by"), "differences of a mean between each two groups"
    ),
    "stepwise": Question(stepwise, ("label", "columns"), ("label",), "the columns that a line needs, by a criterion"),
    "discriminant": Question(
        discriminant, ("by", "columns"), ("by", "columns"), "linear discriminants of the groups of a category"
    ),
    "components": Question(components, ("columns", "k", "scale"), (), "principal components"),
    "factors": Question(factors, ("columns", "k"), (), "common factors by maximum likelihood, rotated by varimax"),
    "canonical-correlation": Question(
        canonical_correlation,
        ("columns", "others", "k"),
        ("columns", "others"),
        "combinations of some columns and of others that go together",
    ),
    "crosstab": Question(crosstab, ("down", "across"), ("down", "across"), "rows by two categories, with chi^2"),
    "odds-ratios": Question(odds_ratios, ("down", "across"), ("down", "across"), "odds ratios of a cross-table"),
    "group-means": Question(
        group_means, ("value", "by", "at_least"), ("value", "by"), "mean of a number in each category"
    ),
    "synthetic": Question(
        synthetic, ("columns", "rows", "seed", "label"), (), "a synthetic table of rows, and how far it is off"
    ),
}


def ask(release: ReleasedMoments, name: str, **given: Any) -> Answer:
    """Return the answer to a question.

    Args:
        release: what was opened.
        name: name of the question.
        given: its arguments.

    Raises:
        AnswerError: there is no such question, an argument is missing or not one of it, or the release cannot answer.
    """
    return answered(QUESTIONS, name, release, given)
