"""Receipts at a party: signed once its part is done, of one result only, and telling no more than a listing."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from certificates import authority_in
from deadlines import GENEROUS_S
from job_builders import PARTIES, make_job, make_table
from party_federation import Federation

from party.outcome.receipts import FinishedJob, Receipts
from service.errors import InvalidRequestError, WrongStateError
from service.identity import Role
from service.trust.receipts import LABEL, statement_of
from service.trust.statements import StatementCheck

ONE, OTHER = bytes(32), bytes(range(32))


@pytest.fixture
def federation(tmp_path):
    rng = np.random.default_rng(3)
    return Federation({name: make_table(name, rng.uniform(-1, 3, (30, 2))) for name in PARTIES}, tmp_path)


@pytest.fixture
def issue(tmp_path):
    (tmp_path / "pki").mkdir()
    return authority_in(tmp_path / "pki", "test")


@pytest.fixture
def bank(issue):
    return issue(Role.PARTY, "bank")


def receipts_of(federation, credentials, finished=None):
    jobs = federation.jobs["bank"]
    return Receipts(
        "main",
        finished or jobs.finished,
        jobs._admission.admitted,
        federation.ledgers["bank"],
        lambda: credentials,
        clock=lambda: 1_700_000_000.9,
    )


async def test_a_party_signs_what_it_knows_and_what_it_was_told(federation, bank):
    job = make_job()
    await federation.run(job)
    text, signed = await receipts_of(federation, bank).sign("job-1", ONE)
    assert StatementCheck(bank).signer(signed, statement_of(text), Role.PARTY) == bank.identity
    fields = json.loads(text)
    plan = (await federation.jobs["bank"].finished("job-1")).plan
    assert {name: fields[name] for name in ("job_id", "party", "coordinator", "analyst", "consent", "charge")} == {
        "job_id": "job-1",
        "party": "spiffe://test/party/bank",
        "coordinator": "main",
        "analyst": "ada",
        "consent": "policy",
        "charge": "committed",
    }
    assert fields["plan_digest"] == plan.digest().hex()
    assert (fields["result_digest"], fields["signed_at_s"], fields["budget"]) == (ONE.hex(), 1_700_000_000, None)
    assert statement_of(text).startswith(LABEL)


async def test_one_result_of_a_job_is_signed_and_no_other(federation, bank):
    await federation.run(make_job())
    receipts = receipts_of(federation, bank)
    first, _ = await receipts.sign("job-1", ONE)
    assert (await receipts.sign("job-1", ONE))[0] == first
    with pytest.raises(WrongStateError, match="only one is signed"):
        await receipts.sign("job-1", OTHER)


async def test_nothing_is_signed_of_a_job_that_is_unknown_or_did_not_run_or_has_ended(federation, bank):
    receipts = receipts_of(federation, bank)
    with pytest.raises(WrongStateError, match="has not run to its end"):
        await receipts.sign("job-1", ONE)
    await federation.reserve(make_job())
    with pytest.raises(WrongStateError, match="has not run to its end"):
        await receipts.sign("job-1", ONE)
    federation.jobs["bank"].end("job-1", "called off")
    with pytest.raises(WrongStateError, match="has not run to its end"):
        await receipts.sign("job-1", ONE)
    with pytest.raises(InvalidRequestError):
        await receipts.sign("job-1", b"short")


async def test_a_receipt_waits_until_the_part_is_done_and_not_for_one_that_fails(federation, bank):
    await federation.reserve(make_job())
    running = asyncio.create_task(anext(federation.jobs["bank"].run("job-1").__aiter__()))
    await running
    asked = asyncio.create_task(receipts_of(federation, bank).sign("job-1", ONE))
    await asyncio.sleep(1.0)  # of virtual time
    assert not asked.done()
    federation.jobs["bank"].end("job-1", "called off")
    with pytest.raises(WrongStateError):
        async with asyncio.timeout(GENEROUS_S):
            await asked


async def test_a_charge_that_is_not_in_the_ledger_is_not_stated(federation, bank):
    plan = await federation.reserve(make_job())
    table = federation.jobs["bank"]._config.tables[0]

    async def finished(job_id):
        return FinishedJob(job_id, "ada", table, plan)

    with pytest.raises(WrongStateError, match="is not committed"):
        await receipts_of(federation, bank, finished).sign("job-1", ONE)


async def test_what_is_left_of_a_budget_is_told_where_its_owner_shows_it(federation, bank):
    await federation.run(make_job())
    known = await federation.jobs["bank"].finished("job-1")

    async def finished(job_id):
        return replace(known, table=known.table.model_copy(update={"show_budget": True}))

    text, _ = await receipts_of(federation, bank, finished).sign("job-1", ONE)
    budget = json.loads(text)["budget"]
    assert (budget["epsilon"], budget["before"]) == (100.0, 1.0)
    assert 0 < budget["after"] < 1


async def test_a_party_without_a_table_has_no_charge(federation, bank):
    await federation.run(make_job())
    known = await federation.jobs["bank"].finished("job-1")

    async def finished(job_id):
        return replace(known, table=None)

    fields = json.loads((await receipts_of(federation, bank, finished).sign("job-1", ONE))[0])
    assert (fields["charge"], fields["budget"]) == ("none", None)
