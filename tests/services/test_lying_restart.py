"""A coordinator that pretends to have restarted, to say something else than before, over real services.

A party that it does so to names the lie, and sends nothing that would answer the second version. Each kind of message
that a coordinator sends to parties is tried.
"""

import asyncio
from contextlib import suppress

import pytest
from deadlines import GENEROUS_S
from registry_jobs import VARIANTS
from registry_tables import tables_of_jobs
from watched_services import watched_services

from coordinator import runner
from mpc.errors import PeerError
from service.errors import ServiceError
from transport.calls.party_client import PartyClient
from transport.messages.session import GrpcSession

pytestmark = pytest.mark.real_time  # real services

VICTIM = "hospital"

SAID = [  # a job, the stage in which the coordinator says the same and then something else, and which array of it
    ("secure-sum", "share keys, attempt 0", 1),
    ("secure-sum", "masked input, attempt 0", 1),
    ("secure-sum", "sign survivors, attempt 0", 1),
    ("distribution, masked", "sign survivors, attempt 0", 1),
    ("logistic-regression by gradients", "weights", 0),
    ("moments, threshold", "large slots", 0),
    ("matrix-factorization", "next round", 1),
    ("matrix-factorization", "sign survivors, round 1, attempt 0", 1),
    ("matrix-factorization, vertical", "released model", 1),
    ("matrix-factorization, sgd", "next round", 2),
    ("matrix-factorization, sgd, vertical", "next round", 2),
]


def forgetful(base, stage, number):
    """The coordinator's end of a job, which begins again with the victim once it has said an array of a stage."""

    class Forgetful(base):
        lie = None
        refusal = ""

        def __init__(self, **options):
            super().__init__(**options)
            self._said = []

        async def send(self, to, of_stage, message):
            await super().send(to, of_stage, message)
            if self.names[to] != VICTIM or of_stage != stage or Forgetful.lie is not None:
                return
            self._said.append(message.copy())
            if len(self._said) == number + 1:
                await self._flush(to)
                # Its part of the job may be given up meanwhile, as the first call to run it has ended; the lie goes on.
                Forgetful.lie = asyncio.create_task(self._say_otherwise(to))
                await asyncio.shield(Forgetful.lie)

        async def _say_otherwise(self, to):
            running = PartyClient(self.names[to], self._channels[to]).run(self.job_id)
            await anext(running)
            await self._renew(to)
            self._said[number].reshape(-1)[-1:] ^= 1
            try:
                for array in self._said:
                    await GrpcSession._write(self, to, stage, array)
                await self._flush(to)
            except PeerError as error:
                Forgetful.refusal = str(error)
                return
            with suppress(ServiceError):  # it was taken: what becomes of the party is waited for
                async for _ in running:
                    pass

    return Forgetful


async def run_with_lie(tmp_path, monkeypatch, name, stage, number):
    """Return the victim's answer to the lie, and the stages that it had sent something in by then."""
    (tmp_path / "run").mkdir()
    tables = tables_of_jobs(tmp_path, [name])
    async with watched_services(tmp_path / "run", tables, monkeypatch, budget=(1e5, 1e-5)) as services:
        lying = forgetful(runner.GrpcSession, stage, number)
        monkeypatch.setattr(runner, "GrpcSession", lying)
        job_id = await services.submit(VARIANTS[name].job(compute=(), deadline_s=GENEROUS_S))
        async with asyncio.timeout(GENEROUS_S):
            while lying.lie is None:
                view = await services.client.show(job_id)
                assert view.state not in ("DONE", "FAILED") or lying.lie is not None, view.reason
                await asyncio.sleep(0.05)
            await lying.lie
    return lying.refusal, [stage for stage, *_ in services.seen[job_id].received.get(VICTIM, [])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stage", "number"), SAID)
async def test_a_party_names_a_coordinator_that_comes_back_to_say_something_else(
    tmp_path, monkeypatch, name, stage, number
):
    refusal, _ = await run_with_lie(tmp_path, monkeypatch, name, stage, number)
    assert f"coordinator says something else in stage {stage} than before it restarted [peer-violation]" in refusal


async def test_no_shares_leave_a_party_for_a_second_list_of_survivors(tmp_path, monkeypatch):
    refusal, stages = await run_with_lie(tmp_path, monkeypatch, "secure-sum", "sign survivors, attempt 0", 1)
    assert "something else" in refusal
    assert stages.count("sign survivors, attempt 0") <= 1  # of the first list
    assert "opening" not in stages
