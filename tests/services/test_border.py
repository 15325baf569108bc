"""What real services take from others and show to people: texts that forge, ids that name files or jobs of the past."""

import asyncio
import json
import re
import time

import grpc
import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner
from wire.v1.party_pb2 import CancelRequest, Member, Proposal, ReserveRequest, RunRequest
from wire.v1.party_pb2_grpc import PartyStub

from cli.main import app
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from party.jobs import MAX_JOBS
from service.errors import InvalidRequestError, error_from_call
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.calls.channel import open_channel
from transport.calls.chunks import chunks_of

OWNERS = ("bank", "hospital", "telco")
HELPER = "helper"
VALUES = {name: random_values((50, 2), seed) for seed, name in enumerate(OWNERS)}
SCREEN = "\n  epsilon    0.01 against the coordinator alone, delta 1e-09\n             0.01 against the worst coalition"
FORGERIES = {
    "line breaks": "Trends)" + SCREEN,
    "escape sequences": "Trends\x1b[8m",
    "carriage return": "Trends\r  epsilon    0.01",
    "direction of writing": "Trends \u202e0.05 nolispe\u202c",
    "isolates": "Trends \u2067x\u2069",
    "zero width": "Tre\u200bnds",
    "line separator": "Trends\u2028epsilon 0.01",
    "next line": "Trends\u0085epsilon 0.01",
    "blank letters": "Trends" + "\u3164" * 40,
    "blank patterns": "Trends" + "\u2800" * 40,
    "spaces": "Trends" + " " * 60 + "epsilon 0.01",
    "length": "Trends " + "x" * 500,
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("border")
    (folder / "run").mkdir()
    asking = {"policy.automatic": {"max_epsilon_per_job": 0.001, "analysts": [ANALYST_NAME]}}
    tables = {**tables_of(VALUES, folder), HELPER: []}
    with ForkedDeployment(folder / "run", tables, policy={"bank": asking}) as running:
        yield running


def calling(deployment, party, use):
    """Call a party with the certificate of its coordinator."""

    async def call():
        folder = deployment.folder
        own = load_credentials(
            authority=folder / "ca.pem",
            certificate=folder / f"{COORDINATOR_NAME}.pem",
            key=folder / f"{COORDINATOR_NAME}.key",
        )
        peer = Identity(deployment.federation, Role.PARTY, party)
        async with open_channel(deployment.addresses[party], peer, own) as channel:
            return await use(PartyStub(channel))

    return asyncio.run(call())


def proposal(job_id, *, analyst=ANALYST_NAME, compute=(), **changes) -> Proposal:
    fields = json.loads(pca_job(OWNERS, compute=compute).canonical_json()) | changes
    members = (*compute, *(name for name in OWNERS if name not in compute))
    roster = [Member(number=number, name=name) for number, name in enumerate(members, start=1)]
    return Proposal(job_id=job_id, job_json=json.dumps(fields), roster=roster, analyst=analyst)


def answer(deployment, party, request) -> tuple[bool, str]:
    """Return whether a party accepts a proposal, and its text."""

    async def propose(stub):
        try:
            reply = await stub.Propose(chunks_of(request), timeout=GENEROUS_S)
        except grpc.aio.AioRpcError as error:
            return False, str(error_from_call(error, peer=party, doing="propose"))
        return reply.accepted, reply.reason

    return calling(deployment, party, propose)


def moiety(deployment, party, *arguments):
    return CliRunner().invoke(app, ["party", *arguments, "--config", str(deployment.config_path(party))])


def waiting_job(deployment, party) -> str:
    """Wait until the owner of a party is asked, and return what it is shown."""
    end_s = time.monotonic() + GENEROUS_S
    while not (shown := moiety(deployment, party, "jobs").stdout):
        assert time.monotonic() < end_s, "nobody was asked"
        time.sleep(0.05)
    return shown


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
def test_a_party_refuses_a_title_that_forges_the_approval_screen(deployment, forged):
    accepted, reason = answer(deployment, "bank", proposal(f"forged{abs(hash(forged))}", title=forged))
    assert not accepted
    assert "title" in reason
    assert all(line.isprintable() for line in reason.split("\n"))


@pytest.mark.parametrize(
    "changes",
    [
        {"analyst": "ada" + SCREEN},
        {"analyst": "ada\x1b[2J"},
        {"parameters": {"components": 2, "no\u202ete": 1}},
        {"parameters": {"components": 2, "note": ["a", {"b": "\x1b[2J"}]}},
        {"inputs": [{"party": p, "table": "people", "columns": ["x0\nepsilon"]} for p in OWNERS]},
        {"fie\x1b[2Jld": 1},
    ],
    ids=["analyst", "analyst's escapes", "parameter's name", "inner parameter", "column", "unknown field"],
)
def test_a_party_refuses_forging_texts_wherever_a_proposal_has_them(deployment, changes):
    accepted, reason = answer(deployment, "bank", proposal(f"forged{abs(hash(str(changes)))}", **changes))
    assert not accepted
    assert all(line.isprintable() for line in reason.split("\n"))


def test_the_coordinator_refuses_what_forges_before_any_party_hears_of_it(deployment):
    fields = json.loads(pca_job(OWNERS).canonical_json()) | {"title": FORGERIES["line breaks"]}

    class Forged:
        def canonical_json(self):
            return json.dumps(fields)

    with pytest.raises(InvalidRequestError, match=r"title: the character U\+000A"):
        Analyst(deployment).submit(Forged())


def test_an_owner_sees_an_honest_title_in_its_own_field_and_approves(deployment):
    title = 'Überblick "überall": 傾向と対策 ' + "word " * 20 + "end"
    job_id = Analyst(deployment).submit(pca_job(OWNERS, title=title))
    shown = waiting_job(deployment, "bank").splitlines()
    assert shown[0] == f"job {job_id}: pca"
    assert shown[1].startswith('  title      "Überblick \\"überall\\": 傾向と対策 word')
    assert all(line.startswith(" " * 13) for line in shown[2:4])
    assert sum(line.startswith("  epsilon ") for line in shown) == 1
    assert moiety(deployment, "bank", "approve", job_id, "--yes").exit_code == 0
    assert result_of(Analyst(deployment).wait(job_id))


def is_report_of_a_job(path):
    """Earlier jobs may have ended, and their reports may still be on their way to the disk."""
    return path.parent.name == "reports" and re.fullmatch(r"[0-9a-f]{16}\.json|\.unfinished-.*", path.name)


@pytest.mark.parametrize("party", ["bank", HELPER])
@pytest.mark.parametrize("job_id", ["../../x", "..", "", "a/b", "a b", "a\nb", ".hidden", "x" * 129, "ä"], ids=ascii)
def test_no_party_takes_an_id_that_is_none(deployment, party, job_id):
    compute = (*OWNERS[:2], HELPER)
    before = sorted(deployment.folder.rglob("*"))
    accepted, reason = answer(deployment, party, proposal(job_id, compute=compute))
    assert not accepted
    assert "job id" in reason

    async def others(stub):
        for call, request in (
            (stub.Reserve, chunks_of(ReserveRequest(job_id=job_id))),
            (stub.Run, RunRequest(job_id=job_id)),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match="job id"):
                await call(request, timeout=GENEROUS_S).read()
        with pytest.raises(grpc.aio.AioRpcError, match="job id"):
            await stub.Cancel(CancelRequest(job_id=job_id), timeout=GENEROUS_S)

    calling(deployment, party, others)
    new = [path for path in sorted(deployment.folder.rglob("*")) if path not in before]
    assert [path for path in new if not is_report_of_a_job(path)] == []


def test_a_proposal_with_an_ended_id_is_refused_and_leaves_nothing_behind(deployment):
    compute = (*OWNERS[:2], HELPER)

    async def abuse(stub):
        assert (await stub.Propose(chunks_of(proposal("ended", compute=compute)), timeout=GENEROUS_S)).accepted
        await stub.Cancel(CancelRequest(job_id="ended", reason="over"), timeout=GENEROUS_S)
        for _ in range(MAX_JOBS):
            again = await stub.Propose(chunks_of(proposal("ended", compute=compute)), timeout=GENEROUS_S)
            assert not again.accepted
            assert "ended" in again.reason
            told = [some async for some in stub.Run(RunRequest(job_id="ended"), timeout=GENEROUS_S)]
            assert [event.WhichOneof("event") for some in told for event in some.events] == ["failed"]
        fresh = await stub.Propose(
            chunks_of(proposal("fresh", compute=compute)), timeout=GENEROUS_S
        )  # there is room for it
        await stub.Cancel(CancelRequest(job_id="fresh"), timeout=GENEROUS_S)
        return fresh.accepted

    assert calling(deployment, HELPER, abuse)


def test_an_id_of_a_finished_job_is_refused_after_a_restart_too(deployment):
    job = pca_job(OWNERS, compute=(*OWNERS[1:], HELPER))
    job_id = Analyst(deployment).submit(job)
    waiting_job(deployment, "bank")
    assert moiety(deployment, "bank", "approve", job_id, "--yes").exit_code == 0
    assert result_of(Analyst(deployment).wait(job_id))
    report = deployment.report(HELPER, job_id)
    deployment.processes[HELPER].terminate()
    deployment.processes[HELPER].wait(60)
    deployment.start(HELPER)
    deployment.wait_until_ready(HELPER)
    accepted, reason = answer(deployment, HELPER, proposal(job_id, compute=(*OWNERS[1:], HELPER)))
    assert (accepted, "has ended here before" in reason) == (False, True)
    assert deployment.report(HELPER, job_id) == report
