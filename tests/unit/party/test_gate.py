"""What an analysis may try, and what it gets: nothing of a table leaves before its owner has committed."""

import asyncio

import numpy as np
import pytest
from deadlines import GENEROUS_S

from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from dp.mechanism.gram import NoisyGram
from entropy import InsecureTestEntropy
from ledger.books import ChargeError
from mpc.errors import LocalFaultError, PeerLostError, PeerSilentError
from mpc.local.network import LocalNetwork
from mpc.protocol.greeting import DifferentTermsError, exchange_public_keys
from mpc.protocol.session import COORDINATOR
from party.gate import COMMIT_STAGE, GatedSession

NAMES = {COORDINATOR: "main", 1: "bank", 2: "hospital", 3: "telco"}
RESULT = np.arange(4, dtype=np.uint64)
GRAM = NoisyGram(n_columns=2, squared_norm_bound=100, n_parties=3, colluding=1, party_mu=200)


class Setting:
    """Three gated parties on one network; `ledger` lists what happened in order."""

    def __init__(
        self,
        *,
        owners=(1, 2, 3),
        openers=(1, 2, 3),
        receivers=(COORDINATOR,),
        deadline_s=1.0,
        refusing=(),
        must_greet=(),
        releases=(),
        until_wanted=None,
        row_workers=None,
    ):
        self.network = LocalNetwork(NAMES, deadline_s=deadline_s)
        self.happened = []
        self.refusing = set(refusing)
        self.network.fault = self._note
        self.gated = {
            member: GatedSession(
                self.network.session(member),
                commit=lambda member=member: self._commit(member),
                owners=owners,
                openers=openers,
                receivers=receivers,
                releases=releases,
                must_greet=must_greet,
                until_wanted=until_wanted,
                row_workers=row_workers,
            )
            for member in (1, 2, 3)
        }

    def _commit(self, member):
        if member in self.refusing:
            raise ChargeError("job-1 holds no reservation: nothing may be opened")
        self.happened.append(("commit", member))

    def _note(self, message):
        if message.stage != COMMIT_STAGE:
            self.happened.append((message.stage, message.sender))
        return (message,)

    async def all_open(self):
        sends = (gated.send(COORDINATOR, OPENING_STAGE, RESULT) for gated in self.gated.values())
        return await asyncio.gather(*sends, return_exceptions=True)


async def test_every_owner_commits_before_any_share_leaves():
    setting = Setting()
    assert await setting.all_open() == [None] * 3
    assert {kind for kind, _ in setting.happened[:3]} == {"commit"}
    assert sorted(setting.happened[3:]) == [(OPENING_STAGE, member) for member in (1, 2, 3)]


@pytest.mark.parametrize("stage", [OPENING_STAGE, "table", "made up", ""])
async def test_nothing_goes_to_the_coordinator_in_any_stage_where_the_ledger_says_no(stage):
    setting = Setting(refusing={1})
    for _ in range(3):  # trying again does not help
        with pytest.raises(ChargeError, match="nothing may be opened"):
            await setting.gated[1].send(COORDINATOR, stage, RESULT)
    assert setting.happened == []


async def test_no_share_leaves_anybody_where_one_owner_did_not_commit():
    setting = Setting(refusing={2}, deadline_s=0.2)
    answers = await setting.all_open()
    assert isinstance(answers[1], ChargeError)
    assert all(isinstance(answers[i], PeerSilentError) for i in (0, 2))
    assert not [what for what in setting.happened if what[0] == OPENING_STAGE]


async def test_nobody_pays_while_the_coordinator_that_would_take_the_result_is_away():
    is_there, asked = asyncio.Event(), asyncio.Barrier(4)

    async def until_there():
        await asked.wait()
        await is_there.wait()

    setting = Setting(until_wanted=until_there, deadline_s=GENEROUS_S)
    opening = asyncio.create_task(setting.all_open())
    await asked.wait()
    assert setting.happened == []
    is_there.set()
    assert await opening == [None] * 3
    assert setting.happened[:3] == [("commit", member) for member in (1, 2, 3)]


async def test_shares_between_parties_pass_before_the_commit_and_openings_do_not():
    setting = Setting(receivers=(COORDINATOR, 2), refusing={1})
    await setting.gated[1].send(2, "table", RESULT)
    assert np.array_equal(await setting.gated[2].receive(1, "table", (4,)), RESULT)
    with pytest.raises(ChargeError):
        await setting.gated[1].send(2, OPENING_STAGE, RESULT)
    assert setting.happened == [("table", 1)]


async def test_nobody_gets_the_opening_whom_the_plan_does_not_name():
    setting = Setting()
    with pytest.raises(LocalFaultError, match="the plan does not allow telco to receive the result"):
        await setting.gated[1].send(3, OPENING_STAGE, RESULT)
    assert setting.happened == []


async def test_an_owner_that_holds_no_shares_lets_the_others_open_and_is_charged():
    setting = Setting(owners=(1, 3), openers=(1, 2))
    opening = [asyncio.create_task(setting.gated[m].send(COORDINATOR, OPENING_STAGE, RESULT)) for m in (1, 2)]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in opening)
    await setting.gated[3].open()
    await asyncio.gather(*opening)
    assert ("commit", 3) in setting.happened[:3]


async def test_an_owner_without_shares_sends_of_its_own_once_it_has_paid_and_keeps_the_others_closed_until_then():
    setting = Setting(owners=(1, 2, 3), openers=(1, 2), refusing={1})
    waiting = asyncio.create_task(setting.gated[2].send(COORDINATOR, "centres", RESULT))
    await asyncio.sleep(0.05)
    assert setting.happened == [("commit", 2)]
    await setting.gated[3].send(COORDINATOR, "centres", RESULT)
    assert setting.happened == [("commit", 2), ("commit", 3), ("centres", 3)]
    with pytest.raises(ChargeError):  # 1 fails: nothing of its table, nor any share, is out
        await setting.gated[1].send(COORDINATOR, "centres", RESULT)
    setting.network.kill(1)
    with pytest.raises(PeerLostError):
        await waiting
    assert [what for what in setting.happened if what[0] == "centres"] == [("centres", 3)]


async def test_an_owner_without_shares_pays_before_what_it_sends_of_its_own():
    setting = Setting(owners=(1, 2, 3), openers=(1, 2), refusing={3})
    with pytest.raises(ChargeError):
        await setting.gated[3].send(COORDINATOR, "centres", RESULT)
    assert setting.happened == []


async def test_the_books_are_closed_once_however_much_is_sent_at_once():
    setting = Setting()
    others = asyncio.gather(setting.gated[2].open(), setting.gated[3].open())
    sends = (setting.gated[1].send(COORDINATOR, stage, RESULT) for stage in ("a", "b", OPENING_STAGE))
    await asyncio.gather(*sends)
    await others
    assert setting.happened.count(("commit", 1)) == 1


async def test_who_has_committed_may_drop_out_and_the_others_open():
    setting = Setting()
    await setting.gated[3].commit()
    assert setting.happened == [("commit", 3)]  # it waited for nobody
    setting.network.kill(3)
    sends = (setting.gated[m].send(COORDINATOR, OPENING_STAGE, RESULT) for m in (1, 2))
    assert await asyncio.gather(*sends) == [None, None]
    assert setting.happened.count(("commit", 3)) == 1


async def test_who_drops_out_before_it_has_committed_takes_the_opening_along():
    setting = Setting()
    setting.network.kill(3)
    sends = (setting.gated[m].send(COORDINATOR, OPENING_STAGE, RESULT) for m in (1, 2))
    assert all(isinstance(answer, PeerLostError) for answer in await asyncio.gather(*sends, return_exceptions=True))
    assert not [what for what in setting.happened if what[0] == OPENING_STAGE]


async def test_a_commit_that_the_ledger_refuses_opens_nothing_and_is_asked_for_again():
    setting = Setting(refusing={1})
    for attempt in (setting.gated[1].commit, setting.gated[1].open):
        with pytest.raises(ChargeError):
            await attempt()
    assert setting.happened == []


@pytest.mark.parametrize("use", ["send", "receive", "gather"])
async def test_the_gates_own_messages_cannot_be_forged(use):
    gated = Setting().gated[1]
    calls = {
        "send": lambda: gated.send(2, COMMIT_STAGE, np.ones(1, dtype=np.uint8)),
        "receive": lambda: gated.receive(2, COMMIT_STAGE, (1,), np.uint8),
        "gather": lambda: gated.gather([2], COMMIT_STAGE, (1,), quorum=1),
    }
    with pytest.raises(LocalFaultError, match="belongs to the gate"):
        await calls[use]()


@pytest.mark.parametrize(("to", "stage"), [(2, "table"), (COORDINATOR, "centres"), (2, OPENING_STAGE), (2, "")])
async def test_nothing_leaves_before_all_members_have_shown_the_same_binding(to, stage):
    setting = Setting(receivers=(COORDINATOR, 2), must_greet=(2, 3))
    gated = setting.gated[1]
    gated.trust_binding([2])
    with pytest.raises(LocalFaultError, match="before telco confirmed the plan"):
        await gated.send(to, stage, RESULT)
    for pay in (gated.commit, gated.open):
        with pytest.raises(LocalFaultError, match="the cost is not committed before telco confirmed the plan"):
            await pay()
    assert setting.happened == []
    gated.trust_binding([3])
    for member in (2, 3):
        setting.gated[member].trust_binding([1, 2, 3])
        await setting.gated[member].commit()
    await gated.send(to, stage, RESULT)
    assert (stage, 1) in setting.happened


async def test_greetings_leave_before_and_open_the_gate_once_they_agree():
    setting = Setting(must_greet=(2, 3))
    peers = {1: (2, 3), 2: (1, 3), 3: (1, 2)}
    keys = await asyncio.gather(*(exchange_public_keys(setting.gated[m], peers[m], b"%d" % m) for m in peers))
    assert keys[0] == {2: b"2", 3: b"3"}
    await setting.gated[1].send(2, "table", RESULT)


async def test_workers_get_no_row_before_all_members_have_shown_the_same_binding():
    workers = object()
    setting = Setting(must_greet=(2, 3), row_workers=workers)
    with pytest.raises(LocalFaultError, match="before hospital, telco confirmed the plan"):
        _ = setting.gated[1].row_workers
    setting.gated[1].trust_binding((2, 3))
    assert setting.gated[1].row_workers is workers
    assert Setting(must_greet=(2, 3)).gated[1].row_workers is None


async def test_a_greeting_of_another_plan_opens_nothing():
    setting = Setting(must_greet=(2, 3))
    others = {m: setting.network.session(m) for m in (2, 3)}
    others[3].binding = bytes(32)
    greetings = [exchange_public_keys(other, [1], b"key") for other in others.values()]
    mine, *_ = await asyncio.gather(
        exchange_public_keys(setting.gated[1], [2, 3], b"key"), *greetings, return_exceptions=True
    )
    assert isinstance(mine, DifferentTermsError)
    assert (mine.member, mine.witness) == (COORDINATOR, 3)
    with pytest.raises(LocalFaultError, match="before hospital, telco confirmed the plan"):
        await setting.gated[1].send(2, "table", RESULT)


async def test_noise_comes_through_the_gate_from_the_partys_own_entropy():
    gated = Setting(releases=(PlannedRelease(GRAM, (1, 2, 3)),)).gated[1]
    expected = GRAM.draw(InsecureTestEntropy("member 1"))
    assert np.array_equal(await gated.draw(GRAM), expected)
    with pytest.raises(LocalFaultError, match="at most 1 draws"):
        await gated.draw(GRAM)


async def test_noise_that_the_plan_does_not_state_is_refused_before_any_is_made():
    gated = Setting(releases=(PlannedRelease(GRAM, (2, 3)),)).gated[1]
    before = InsecureTestEntropy("member 1").read(8)
    with pytest.raises(LocalFaultError, match="states no such release"):
        await gated.draw(GRAM)
    assert gated.entropy.read(8) == before


@pytest.mark.parametrize("to_and_stage", [(COORDINATOR, OPENING_STAGE), (COORDINATOR, "a"), (2, OPENING_STAGE)])
async def test_a_party_that_has_not_drawn_sends_nothing_and_is_not_charged(to_and_stage):
    setting = Setting(receivers=(COORDINATOR, 2), releases=(PlannedRelease(GRAM, (1,)),))
    with pytest.raises(LocalFaultError, match="noise that was not drawn"):
        await setting.gated[1].send(*to_and_stage, RESULT)
    assert setting.happened == []
    await setting.gated[1].send(2, "table", RESULT)
    await setting.gated[1].draw(GRAM)
    await asyncio.gather(*(setting.gated[member].commit() for member in (2, 3)))
    await setting.gated[1].send(*to_and_stage, RESULT)
