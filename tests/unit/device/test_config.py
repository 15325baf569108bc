import json
from contextlib import nullcontext
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from devices import IDENTITIES, NAMES, device_in, question, round_of
from typer.testing import CliRunner

from analyses.sums.records import DeclaredRecord
from analyses.sums.secure_sum import SumParams, round_config
from cli.main import app
from device.config import DeviceConfig, SumPolicy, read_identity_key
from device.record_config import RatingsRecordConfig
from device.report import lines_of_person
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.policy import MemberPolicy
from service.settings import SettingsError

TEXT = """
name = "ann"
federation = "walkers"
data_dir = "ann"
identity_file = "ann.identity"
roster = "roster.toml"

[coordinator]
name = "hub"
address = "127.0.0.1:7100"

[tls]
authority = "ca.pem"
certificate = "ann.pem"
key = "ann.key"

[policy]
smallest_cohort = 7
corrupt_fraction = 0.1

[[records]]
name = "steps"
path = "steps.json"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "device.toml").write_text(TEXT)
    members = [("ann", "aa" * 32), ("ben", "bb" * 32)]
    (tmp_path / "roster.toml").write_text(
        "".join(f'[[members]]\nname = "{name}"\nidentity = "{key}"\n' for name, key in members)
    )
    return tmp_path


def test_the_policy_is_what_the_file_and_the_roster_say(folder):
    policy = DeviceConfig.load(folder / "device.toml").member_policy()
    assert policy.pinned == {"ann": b"\xaa" * 32, "ben": b"\xbb" * 32}
    assert policy.smallest_cohort == 7
    assert policy.corrupt_fraction * 10 == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "smallest_cohort = 1",
        "corrupt_fraction = 1.0",
        "smallest_degree = 0",
        "cohort = 9",
        'allowed_encodings = ["rounded"]',
    ],
)
def test_a_floor_that_is_none_is_refused(folder, wrong):
    (folder / "device.toml").write_text(TEXT.replace("smallest_cohort = 7\ncorrupt_fraction = 0.1", wrong))
    with pytest.raises(SettingsError, match="policy"):
        DeviceConfig.load(folder / "device.toml")


FLOORS = """smallest_n_required = 5
largest_attempt = 0
allowed_encodings = ["toward-zero"]
smallest_cohort = 7"""


def test_the_file_may_raise_every_floor(folder):
    (folder / "device.toml").write_text(TEXT.replace("smallest_cohort = 7", FLOORS))
    policy = DeviceConfig.load(folder / "device.toml").member_policy()
    assert (policy.smallest_n_required, policy.largest_attempt) == (5, 0)
    assert policy.allowed_encodings == {"toward-zero"}
    missing = {field.name for field in fields(MemberPolicy)} - {"pinned"} - set(SumPolicy.model_fields)
    assert missing == set()


def floors_of(folder, lines):
    (folder / "device.toml").write_text(TEXT.replace("smallest_cohort = 7\ncorrupt_fraction = 0.1", lines))
    roster = "".join(f'[[members]]\nname = "{name}"\nidentity = "{key.hex()}"\n' for name, key in IDENTITIES.items())
    (folder / "roster.toml").write_text(roster)
    return DeviceConfig.load(folder / "device.toml").member_policy()


@pytest.mark.parametrize(
    ("lines", "params", "attempt", "words"),
    [
        ("smallest_n_required = 5", {}, 0, "4 shares open a secret; at least 5 here"),
        ("largest_attempt = 0", {}, 1, "this is attempt 1; at most 0 here"),
        ('allowed_encodings = ["stochastic"]', {}, 0, "the encoding toward-zero is not one of stochastic"),
        ("", {"colluding": 0}, 0, r"safe with 0 corrupt members of 5; at least a fraction of 0\.1 here"),
    ],
)
def test_a_round_below_a_floor_of_the_file_is_refused(folder, lines, params, attempt, words):
    config = round_of(question(**params), attempt=attempt)
    with pytest.raises(PolicyRefusalError, match=words):
        floors_of(folder, lines).check(config, 1, IDENTITIES[NAMES[0]])
    floors_of(folder, "").check(round_of(question(), attempt=1), 1, IDENTITIES[NAMES[0]])


def test_a_budget_says_why_it_is_so(folder):
    for reason in ("", 'reason = " "'):
        section = f'[policy.budget]\nperiod = "2026"\nepsilon = 1.0\ndelta = 1e-6\n{reason}\n\n[[records]]'
        (folder / "device.toml").write_text(TEXT.replace("[[records]]", section))
        with pytest.raises(SettingsError, match=r"policy\.budget\.reason"):
            DeviceConfig.load(folder / "device.toml")


def test_without_a_word_of_the_owner_there_is_no_budget_and_there_are_no_exact_sums(folder):
    policy = DeviceConfig.load(folder / "device.toml").policy
    assert (policy.budget, policy.exact_sums) == (None, False)


def test_a_budget_has_a_period_an_epsilon_and_a_delta(folder):
    section = '[policy.budget]\nperiod = "2026"\nepsilon = 4.0\ndelta = 1e-6\nreason = "first"\n\n[[records]]'
    (folder / "device.toml").write_text(TEXT.replace("[[records]]", section))
    config = DeviceConfig.load(folder / "device.toml")
    (folder / "ann").mkdir()
    budget = config.open_budget("installation-1")
    assert (budget.standing()["epsilon"], budget.standing()["period"]) == (4.0, "2026")
    budget.close()
    assert config.read_ledger()["budget"]["spent_epsilon"] == 0.0


def test_a_device_has_its_part_of_its_persons_budget_rounded_down_and_says_so(folder):
    """The float nearest to 5 / 3 is larger, so three of them would pass 5."""
    lines = 'period = "2026"\nepsilon = 5.0\ndelta = 1e-6\nreason = "first"\ndevices_of_person = 3'
    (folder / "device.toml").write_text(TEXT.replace("[[records]]", f"[policy.budget]\n{lines}\n\n[[records]]"))
    config = DeviceConfig.load(folder / "device.toml")
    part = config.policy.budget.as_budget()
    for whole, one in ((5.0, part.epsilon), (1e-6, part.delta)):
        assert 3 * Fraction(one) <= Fraction(whole)
        assert one == pytest.approx(whole / 3, rel=1e-15)
    (folder / "ann").mkdir()
    budget = config.open_budget("installation-1")
    assert lines_of_person(budget.standing()) == [
        "This is one of 3 parts: your 3 devices together may tell epsilon 5 at delta 1e-06, if each is configured so."
    ]
    budget.close()
    shown = CliRunner().invoke(app, ["device", "budget", "--config", str(folder / "device.toml")])
    assert "your 3 devices together may tell epsilon 5" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("wrong", ["0", "65", "1.5", '"two"'])
def test_a_number_of_devices_that_no_person_has_is_refused(folder, wrong):
    lines = f'period = "2026"\nepsilon = 1.0\ndelta = 1e-6\nreason = "first"\ndevices_of_person = {wrong}'
    (folder / "device.toml").write_text(TEXT.replace("[[records]]", f"[policy.budget]\n{lines}\n\n[[records]]"))
    with pytest.raises(SettingsError, match=r"policy\.budget\.devices_of_person"):
        DeviceConfig.load(folder / "device.toml")


@pytest.mark.parametrize("wrong", ["epsilon = -1.0", 'epsilon = "4"', "epsilon = nan", "epsilon = 1e-320"])
def test_a_budget_that_is_none_is_refused(folder, wrong):
    section = f'[policy.budget]\nperiod = "2026"\n{wrong}\ndelta = 1e-6\nreason = "first"\n\n[[records]]'
    (folder / "device.toml").write_text(TEXT.replace("[[records]]", section))
    with pytest.raises(SettingsError, match="epsilon"):
        DeviceConfig.load(folder / "device.toml")


def test_a_budgets_delta_is_below_one_over_the_members(folder):
    for delta, refused in (("0.9", True), ("0.5", True), ("0.49", False)):
        section = f'[policy.budget]\nperiod = "2026"\nepsilon = 1.0\ndelta = {delta}\nreason = "first"\n\n[[records]]'
        (folder / "device.toml").write_text(TEXT.replace("[[records]]", section))
        with pytest.raises(SettingsError, match=r"policy\.budget\.delta") if refused else nullcontext():
            DeviceConfig.load(folder / "device.toml").member_policy()


def test_a_roster_without_keys_is_refused(folder):
    (folder / "roster.toml").write_text('[[members]]\nname = "ann"\nidentity = "short"\n')
    with pytest.raises(SettingsError, match="identity"):
        DeviceConfig.load(folder / "device.toml").member_policy()


def records_of(folder, lines):
    (folder / "device.toml").write_text(TEXT + lines)
    return DeviceConfig.load(folder / "device.toml").kept_records()


def test_a_record_is_read_anew_each_time_and_shows_nothing(folder):
    kept = records_of(folder, "length = 2\nlargest_weight = 9\n")["steps"]
    assert kept.declared == DeclaredRecord(2, 9)
    for values in ([1.5, -2.0], [7.25, 0]):
        (folder / "steps.json").write_text(json.dumps({"values": values, "weight": 3}))
        record = kept.read()
        assert np.array_equal(record.values, values)
        assert record.weight == 3
        assert repr(record) == "Record()"
        assert "7.25" not in repr(kept)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("length = 0", "length"),
        ("length = -1", "length"),
        (f"length = {(1 << 26) + 1}", "length"),
        ("largest_weight = 5", "means need a length too"),
        ("length = 2\nlargest_weight = 0", "largest_weight"),
        (f"length = 2\nlargest_weight = {(1 << 52) + 1}", "largest_weight"),
        ("length = 2.5", "length"),
        ('[[records]]\nname = "steps"\npath = "other.json"', "two of them have the same name"),
    ],
)
def test_a_declaration_that_is_none_is_refused(folder, lines, words):
    with pytest.raises(SettingsError, match=words):
        records_of(folder, lines + "\n")


def test_without_a_length_a_record_is_declared_for_histograms_only(folder):
    assert records_of(folder, "")["steps"].declared == DeclaredRecord(None, None)


def test_an_identity_key_is_read_and_signs(tmp_path):
    path = tmp_path / "ann.identity"
    path.touch(mode=0o600)
    path.write_text("01" * 32 + "\n")
    assert read_identity_key(path).public_bytes == read_identity_key(path).public_bytes
    assert len(read_identity_key(path).sign(b"x")) == 64


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [("01" * 32, 0o644, "open to other users"), ("01" * 31, 0o600, "not a key"), ("hello", 0o600, "not a key")],
)
def test_a_key_that_is_none_or_open_is_refused_without_showing_it(tmp_path, text, mode, words):
    path = tmp_path / "ann.identity"
    path.touch()
    path.chmod(mode)
    path.write_text(text)
    with pytest.raises(SettingsError, match=words) as caught:
        read_identity_key(path)
    assert text not in str(caught.value)


def test_an_absent_key_says_how_to_make_one(tmp_path):
    with pytest.raises(SettingsError, match="moiety device key"):
        read_identity_key(tmp_path / "absent")


def test_the_example_of_a_device_answers_the_example_of_a_question(tmp_path):
    """Both as they stand, with 20 members: the floor, the declaration, the largest epsilon, the budget."""
    examples = Path(__file__).parents[3] / "examples"
    config = DeviceConfig.load(examples / "device.toml")
    question = SumParams.from_toml((examples / "sum.toml").read_text())
    identities = {"ann": IDENTITIES[NAMES[0]], **{f"member-{i}": bytes([i]) * 32 for i in range(19)}}
    policy = replace(config.member_policy(), pinned=identities)
    proposed = round_config(question, "session", identities)
    policy.check(proposed, 1, IDENTITIES[NAMES[0]])
    with device_in(
        tmp_path,
        budget=config.policy.budget.as_budget(),
        name="ann",
        policy=policy,
        records=config.kept_records(),
        largest_epsilon=config.policy.largest_epsilon,
        exact_sums=config.policy.exact_sums,
    ) as device:
        device._admit(question, proposed)
        assert device.budget.standing()["reserved_jobs"] == 1


PARTIES = """
[policy.parties]
names = ["bank", "clinic", "shop"]
colluding = 1
"""


def test_batches_are_answered_where_parties_are_named_and_under_the_same_floor(folder):
    path = folder / "device.toml"
    assert DeviceConfig.load(path).batch_policy() is None
    path.write_text(TEXT + PARTIES)
    policy = DeviceConfig.load(path).batch_policy()
    assert (policy.parties, policy.colluding) == (frozenset({"bank", "clinic", "shop"}), 1)
    assert (policy.smallest_cohort, policy.exact_sums, policy.coordinator) == (
        7,
        False,
        "spiffe://walkers/coordinator/hub",
    )
    assert (policy.proofs, policy.may_miss) == (False, 0)
    path.write_text(TEXT + PARTIES + "proofs = true\nmay_miss = 1\n")
    policy = DeviceConfig.load(path).batch_policy()
    assert (policy.proofs, policy.may_miss) == (True, 1)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("colluding = 1", "colluding = 3", "one at least is honest"),
        ("colluding = 1", "colluding = 0", "must be at least 1, got 0"),
        ('["bank", "clinic", "shop"]', '["bank"]', "policy.parties.names"),
        ('["bank", "clinic", "shop"]', '["bank", "bank"]', "one at least is honest"),
    ],
)
def test_parties_of_whom_none_need_be_honest_are_refused(folder, before, after, reason):
    text = PARTIES.replace("colluding = 1", "colluding = 2") if '"bank", "bank"' in after else PARTIES
    (folder / "device.toml").write_text(TEXT + text.replace(before, after))
    with pytest.raises(SettingsError, match=reason):
        DeviceConfig.load(folder / "device.toml")


def test_items_of_ratings_may_lie_in_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "items.txt").write_text("alien\nbrazil\n")
    fields = {"kind": "ratings", "name": "films", "path": "films.json", "bounds": [1.0, 5.0]}
    context = {"folder": tmp_path}
    found = RatingsRecordConfig.model_validate({**fields, "items": {"file": "items.txt"}}, context=context)
    assert found == RatingsRecordConfig.model_validate({**fields, "items": ["alien", "brazil"]}, context=context)
    (tmp_path / "items.txt").write_text("alien\nalien\n")
    with pytest.raises(ValueError, match="the same item appears more than once"):
        RatingsRecordConfig.model_validate({**fields, "items": {"file": "items.txt"}}, context=context)
