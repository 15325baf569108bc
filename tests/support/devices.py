"""One device without a network: its policy, its ledger, its journal."""

from contextlib import ExitStack, contextmanager

import numpy as np

from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams, round_config
from device.budget import DeviceBudget
from device.device import Device
from device.journal import SqliteSumJournal
from device.records import KeptRecord
from dp.cost.views import MEMBER_UNIT
from entropy import InsecureTestEntropy, SystemEntropy
from ledger.budget import Budget
from mpc.secagg.config import RoundConfig
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from transport.sum_codec import Invitation

NAMES = tuple(f"walker-{i}" for i in range(1, 6))
BUDGET = Budget(MEMBER_UNIT, "2026", 100.0, 1e-6)
DECLARED = DeclaredRecord(length=3, largest_weight=10)


def identity_key(name: str) -> IdentityKey:
    return IdentityKey(InsecureTestEntropy(f"identity of {name}"))


IDENTITIES = {name: identity_key(name).public_bytes for name in NAMES}


def question(**changes) -> SumParams:
    return SumParams.model_validate(
        {"analysis": "secure-sum", "record": "steps", "length": 3, "largest": 1000, "colluding": 1, **changes}
    )


def round_of(params: SumParams, session: str = "session", attempt: int = 0) -> RoundConfig:
    return round_config(params, session, IDENTITIES, attempt)


def sum_invitation(params: SumParams, session: str = "session") -> Invitation:
    config = round_of(params, session)
    return Invitation(config.round_id, config.roster, params.canonical_json().encode())


@contextmanager
def device_in(folder, *, budget=BUDGET, **changes):
    """Yield the device walker-1, whose client is `changes["client"]`."""
    with ExitStack() as stack:
        ledger = DeviceBudget.open(folder, NAMES[0], "installation-1", "hub", budget, "test")
        stack.callback(ledger.close)
        journal = SqliteSumJournal(folder / "sums.sqlite")
        stack.callback(journal.close)
        fields = {
            "name": NAMES[0],
            "client": None,
            "identity": identity_key(NAMES[0]),
            "policy": MemberPolicy(pinned=IDENTITIES),
            "journal": journal,
            "records": {"steps": KeptRecord(DECLARED, lambda: Record(np.array([1.0, 2.0, 3.0])))},
            "entropy": SystemEntropy(),
            "budget": ledger,
        }
        yield Device(**{**fields, **changes})
