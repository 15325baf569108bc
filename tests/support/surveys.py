"""Questions of surveys, and one device that answers them without a network."""

import datetime
from contextlib import ExitStack, contextmanager

import numpy as np

from analyses.sums.records import DeclaredRecord, Record
from device.budget import DeviceBudget
from device.questions.survey import SurveyDevice
from device.records import KeptRecord
from device.response_store import ResponseStore
from dp.cost.views import MEMBER_UNIT
from entropy import SystemEntropy
from ledger.budget import Budget
from questions.reading import question_from_json
from questions.responses import AskedQuestion, SurveyQuestion

NAME = "walker-1"
HUB = "spiffe://walkers/coordinator/hub"
AMPLE = Budget(MEMBER_UNIT, "2026", 100.0, 1e-6)
FAR = datetime.datetime.combine(
    datetime.datetime.now(datetime.UTC).date(), datetime.time(), datetime.UTC
) + datetime.timedelta(days=30)
"""A whole day, so that all processes of a test ask the same question."""

ALWAYS = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
"""What is public and random follows from the question: where no service asks it, it is the same on every day."""


def survey_question(**changes) -> SurveyQuestion:
    fields = {"record": "wage", "range": (0.0, 100.0), "buckets": 32, "bins": 16, "epsilon": 1.0, "until": FAR}
    if changes.get("method") == "grid":
        fields |= {"second": (0.0, 10.0), "cells": (4, 5)}
    return question_from_json(SurveyQuestion.model_validate({**fields, **changes}).canonical_json())


def asked(session="00" * 16, asker=HUB, **changes) -> AskedQuestion:
    return AskedQuestion(question=survey_question(**{"until": ALWAYS, **changes}), asker=asker, session=session)


OF_PERSONS = {
    "analysis": "pattern-count",
    "record": "smokes",
    "others": [{"record": "runs", "range": (0.0, 1.0)}, {"record": "sleeps-well", "range": (0.0, 1.0)}],
    "range": (0.0, 1.0),
    "buckets": 2,
    "method": "sign",
}
"""A question about three records of each person, to devices named PERSON-RECORD."""


OF_CATEGORIES = {
    "analysis": "pattern-count",
    "record": "smokes",
    "others": [{"record": "travels-by", "range": (1.0, 5.0)}, {"record": "sleeps-well", "range": (0.0, 2.0)}],
    "range": (0.0, 2.0),
    "buckets": 2,
    "bins": 2,
    "method": "direct",
}
"""As `OF_PERSONS`, but records are categories: `travels-by` is one of 1, 2, 3, 4."""


def kept(*values: float, length=None) -> KeptRecord:
    return KeptRecord(DeclaredRecord(length), lambda: Record(np.array(values, dtype=np.float64)))


def another_session(number: int) -> str:
    return f"{number:032x}"


@contextmanager
def survey_device(folder, *, budget=AMPLE, reason="test", **changes):
    """Yield the device walker-1 as it starts in a folder."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        ledger = DeviceBudget.open(folder, NAME, "installation-1", "hub", budget, reason)
        stack.callback(ledger.close)
        store = ResponseStore(folder / "responses.sqlite")
        stack.callback(store.close)
        fields = {
            "name": NAME,
            "coordinator": HUB,
            "client": None,
            "store": store,
            "records": {"wage": kept(40.0)},
            "fixed": frozenset(),
            "budget": ledger,
            "max_epsilon": 4.0,
            "entropy": SystemEntropy(),
            "data_dir": folder,
        }
        yield SurveyDevice(**{**fields, **changes})
