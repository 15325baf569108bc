import asyncio

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR


class Members:
    """The agreements of all members of one network."""

    def __init__(self, n_parties, t=1, fault=None):
        self.network = LocalNetwork(local_names(n_parties), deadline_s=10)
        if fault is not None:
            self.network.fault = fault
        self.of = {
            m: DealerAgreement(ShareExchange(self.network.session(m), ResidueField(1), n_parties, t, {}), "test")
            for m in range(n_parties + 1)
        }

    def agree(self, received, n_required=3):
        """Each party's result, or its error; `received` maps party to the dealers it received from."""

        async def one(party):
            dealers = await self.of[party].agree(received[party], n_required)
            self.of[party].settle()
            return dealers

        return self._run({party: one(party) for party in received})

    def senders(self, members, receivers, n_required=2):
        return self._run({m: self.of[m].senders_with_one_view("opening", receivers, n_required) for m in members})

    def _run(self, coroutines):
        async def all_together():
            return await asyncio.gather(*coroutines.values(), return_exceptions=True)

        return dict(zip(coroutines, run_in_virtual_time(all_together()), strict=True))


EVERYBODY = {1, 2, 3, 4, 5}


def test_with_2t_plus_1_parties_all_deal_and_nothing_is_sent():
    members = Members(3)
    assert members.agree({p: {1, 2, 3} for p in (1, 2, 3)}) == dict.fromkeys((1, 2, 3), (1, 2, 3))
    assert members.network.transcript == []
    with pytest.raises(PeerLostError):
        members.of[1].miss(PeerLostError(2, "test", "party-2 has dropped out"))


def test_the_dealers_that_everybody_received_from_count():
    members = Members(5)
    received = dict.fromkeys(EVERYBODY, EVERYBODY) | {2: EVERYBODY - {4}}
    assert set(members.agree(received).values()) == {(1, 2, 3, 5)}
    assert len({members.of[p].view for p in EVERYBODY}) == 1
    assert members.of[1].view != 0
    assert members.of[1].stage("products") == f"test/products@{members.of[1].view:016x}"


def test_the_view_changes_only_with_the_set_of_dealers():
    members = Members(5)
    members.agree(dict.fromkeys(EVERYBODY, EVERYBODY))
    assert members.of[3].view == 0
    assert members.of[3].stage("products") == "test/products"
    members.agree(dict.fromkeys(EVERYBODY, EVERYBODY - {5}))
    view = members.of[3].view
    members.agree(dict.fromkeys(EVERYBODY, EVERYBODY - {5}))
    assert members.of[3].view == view
    members.agree(dict.fromkeys(EVERYBODY, EVERYBODY))
    assert members.of[3].view not in (0, view)


def test_a_lost_party_is_left_out():
    members = Members(5)
    members.network.kill(4)
    survivors = EVERYBODY - {4}
    results = members.agree(dict.fromkeys(survivors, survivors))
    assert set(results.values()) == {(1, 2, 3, 5)}
    assert isinstance(members.of[1].dropped_out[4], PeerLostError)
    assert members.of[1].present() == [2, 3, 5]


def test_too_few_dealers_end_the_job_with_a_name():
    members = Members(4)
    results = members.agree({1: {1, 2, 3}, 2: {1, 2, 4}, 3: {1, 2, 3, 4}, 4: {1, 2, 3, 4}})
    assert all(isinstance(r, PeerLostError) and r.member == 3 for r in results.values())
    assert "party-3 did not reach all parties: 2 parties are left, but 3 are needed" in str(results[1])


def test_something_else_than_flags_counts_as_absence():
    members = Members(
        5, fault=lambda m: (m.altered(np.full_like(m.array, 7)),) if (m.sender, m.receiver) == (2, 1) else (m,)
    )
    members.agree(dict.fromkeys(EVERYBODY, EVERYBODY))
    assert isinstance(members.of[1].dropped_out[2], PeerViolationError)


def test_parties_that_heard_different_answers_do_not_hear_each_other_any_more():
    """Party 5 misses dealer 1; its answer reaches only party 4, so 4 and 5 leave 1 out and the others do not."""
    members = Members(5, fault=lambda m: () if m.sender == 5 and m.receiver in (1, 2, 3) else (m,))
    results = members.agree(dict.fromkeys((1, 2, 3, 4), EVERYBODY) | {5: EVERYBODY - {1}})
    assert results[1] == results[2] == results[3] == (1, 2, 3, 4, 5)
    assert results[4] == results[5] == (2, 3, 4, 5)
    assert members.of[1].stage("products") != members.of[4].stage("products")
    assert members.of[4].stage("products") == members.of[5].stage("products")
    openings = members.senders([0, 1, 2, 3, 4, 5], receivers=(COORDINATOR, 1, 4))
    assert openings[COORDINATOR] == openings[1] == [1, 2, 3]
    assert openings[4] == [4, 5]
    assert openings[2] is None
    assert "party-4 has been cut off" in str(members.of[COORDINATOR].dropped_out[4])


def test_too_few_parties_with_one_view_end_the_job_with_a_name():
    members = Members(5, fault=lambda m: () if m.sender == 5 and m.receiver in (1, 2, 3) else (m,))
    members.agree(dict.fromkeys((1, 2, 3, 4), EVERYBODY) | {5: EVERYBODY - {1}})
    openings = members.senders([0, 1, 2, 3, 4, 5], receivers=(COORDINATOR, 4), n_required=4)
    assert isinstance(openings[COORDINATOR], PeerLostError)
    assert isinstance(openings[4], PeerLostError)


def test_one_who_waits_for_somebody_who_waits_is_patient():
    """The answer comes after more than one deadline, as from a party that has waited for a third one."""
    members = Members(5, fault=lambda m: (m.delayed(15),) if m.sender == 2 else (m,))
    assert set(members.agree(dict.fromkeys(EVERYBODY, EVERYBODY)).values()) == {(1, 2, 3, 4, 5)}
    late = Members(5, fault=lambda m: (m.delayed(25),) if m.sender == 2 else (m,))
    late.agree(dict.fromkeys(EVERYBODY, EVERYBODY))
    assert isinstance(late.of[1].dropped_out[2], PeerSilentError)


def test_who_holds_no_shares_waits_longer_after_more_steps():
    members = Members(5, fault=lambda m: (m.delayed(75),))
    for _ in range(2):
        members.of[COORDINATOR].begin()
    assert members.senders(range(6), receivers=(COORDINATOR,))[COORDINATOR] == [1, 2, 3, 4, 5]
