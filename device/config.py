"""The configuration of a member of masked sums, `device.toml`: its identity, whom it trusts and what it contributes.

Everything here is the owner's decision. Nothing that the coordinator sends changes it.
"""

import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from analyses.job.job import LEAST_EPSILON, Epsilon, Finite, Name
from device.budget import DeviceBudget, SumBudgetConfig, read_device_ledger
from device.questions.batch_policy import BatchPolicy
from device.ratings import KeptRatings
from device.record_config import AnyRecordConfig, RatingsRecordConfig, RecordConfig
from device.records import KeptRecord
from entropy import Entropy
from mpc.secagg.graph_parameters import SMALLEST_DEGREE
from mpc.secagg.policy import ENCODING_KINDS, MemberPolicy
from mpc.secagg.secret.keys import KEY_BYTES, IdentityKey
from service.identity import Identity, Role
from service.logs import LogFormat
from service.reach.proxy_config import ProxyConfig
from service.settings import Addresses, FilePath, Settings, SettingsError, TlsFiles, load_settings

ENVIRONMENT_PREFIX = "MOIETY_DEVICE"


class CoordinatorPin(Settings):
    """The one coordinator that this member dials.

    Attributes:
        name: name in the coordinator's certificate.
        address: where it listens; a list of addresses where several share the name, of which one leads.
    """

    name: Name
    address: Addresses


class SurveyPolicy(Settings):
    """Section `[policy.surveys]`: which questions of surveys are answered; without it, none.

    Attributes:
        max_epsilon: largest epsilon of one response, at delta 0; a question that asks for more is not answered.
    """

    max_epsilon: Epsilon


class PartiesPolicy(Settings):
    """Section `[policy.parties]`: the compute parties that this member trusts not to collude all together.

    Without it no batch is answered (sums by shares to compute parties). A name is pinned as the federation's authority
    certifies it; it must not come from the coordinator.

    Attributes:
        names: names in their certificates; a batch with any other party is not answered.
        colluding: number of a batch's parties that may collude with the coordinator: a batch whose noise protects
            against fewer is not answered.
        proofs: whether only batches are answered in which every device proves that its vector keeps the bounds of the
            question: in any other, one that lies can spoil the answer that this member has paid for.
        may_miss: without how many of its parties a batch may be opened that is answered: of those that are left, all
            that collude read what this member answers.
    """

    names: Annotated[tuple[Name, ...], Field(min_length=2)]
    colluding: Annotated[int, Field(ge=1)]
    proofs: bool = False
    may_miss: Annotated[int, Field(ge=0, le=1)] = 0

    @model_validator(mode="after")
    def _one_is_honest(self) -> Self:
        if self.colluding >= len(set(self.names)):
            raise ValueError("colluding: must be smaller than the number of parties, of which one at least is honest")
        return self


class SumPolicy(Settings):
    """Section `[policy]`: the floor of this member; a round below it is refused. See `mpc.secagg.policy`.

    Attributes:
        smallest_cohort: a sum of fewer members is refused.
        smallest_n_required: a round in which fewer members' shares open a member's secret is refused.
        corrupt_fraction: fraction of the members that may collude with the coordinator; a round that is safe against
            fewer is refused, also one whose noise protects against fewer only. 0 trusts all members: "the worst
            coalition" of a question that states no colluding members is then the coordinator alone.
        smallest_degree, largest_degree: bounds of the number of neighbours.
        largest_elements: a longer vector is refused.
        largest_attempt: number of retries of a round that are answered, each with fresh keys; 0 for none.
        allowed_encodings: how a vector may be made integers: "toward-zero", "stochastic", "rotated-toward-zero",
            "rotated-stochastic".
        largest_epsilon: largest epsilon of a round in its worst view (the coordinator alone, or with its colluding
            members), at the budget's delta; a round with less noise is refused.
        least_epsilon: least epsilon of a noisy question, at its own delta: very many of a tiny epsilon would cost next
            to nothing, and what each shows beside its answer would be free.
        budget: budget of all noisy sums of a period together; without, none is answered.
        exact_sums: whether sums without noise are answered. They protect nobody, and no budget counts them.
        surveys: see `SurveyPolicy`; it needs a budget.
        parties: see `PartiesPolicy`.
        tell_refusals: whether who asks is told the class of the reason where nothing is answered: policy, budget,
            question, version or trouble. Nothing of it depends on a record.
    """

    smallest_cohort: Annotated[int, Field(ge=2)] = 3
    smallest_n_required: Annotated[int, Field(ge=2)] = 2
    corrupt_fraction: Annotated[Finite, Field(ge=0, lt=1)] = 0.1
    smallest_degree: Annotated[int, Field(ge=2)] = SMALLEST_DEGREE
    largest_degree: Annotated[int, Field(ge=2)] = 1024
    largest_elements: Annotated[int, Field(ge=1)] = 1 << 24
    largest_attempt: Annotated[int, Field(ge=0)] = 7
    allowed_encodings: Annotated[frozenset[str], Field(min_length=1)] = ENCODING_KINDS
    largest_epsilon: Epsilon | None = None
    least_epsilon: Epsilon = LEAST_EPSILON
    budget: SumBudgetConfig | None = None
    exact_sums: bool = False
    surveys: SurveyPolicy | None = None
    parties: PartiesPolicy | None = None
    tell_refusals: bool = True

    @model_validator(mode="after")
    def _surveys_have_a_budget(self) -> Self:
        if self.surveys is not None and self.budget is None:
            raise ValueError("surveys: responses are charged to a budget (policy.budget), and there is none")
        return self

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> Self:
        most = [self.largest_epsilon, None if self.surveys is None else self.surveys.max_epsilon]
        if any(one is not None and one < self.least_epsilon for one in most):
            raise ValueError("least_epsilon: must not be larger than largest_epsilon or surveys.max_epsilon")
        return self

    @model_validator(mode="after")
    def _encodings_exist(self) -> Self:
        if unknown := sorted(self.allowed_encodings - ENCODING_KINDS):
            raise ValueError(f"allowed_encodings: {unknown[0]!r} is not one of {', '.join(sorted(ENCODING_KINDS))}")
        return self


class PinnedMember(Settings):
    """A member that this one accepts beside itself.

    Attributes:
        name: name in its certificate.
        identity: its Ed25519 key, 64 hexadecimal digits.
    """

    name: Name
    identity: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Roster(Settings):
    """The file of pinned members; the same for all of them. It must not come from the coordinator.

    Attributes:
        members: all, this one included.
    """

    members: Annotated[tuple[PinnedMember, ...], Field(min_length=2)]


class DeviceConfig(Settings):
    """All of `device.toml`.

    Attributes:
        name: name in this member's certificate.
        federation: the federation whose coordinator it trusts with liveness.
        data_dir: for the journal of rounds and the privacy ledger.
        identity_file: file of its Ed25519 key, made by `moiety device key`.
        roster: file of the pinned members.
        log_format: `json` or `console`.
        coordinator: whom to dial.
        tls: this member's certificate, its key, the authority.
        proxy: through which the coordinator is dialled; directly where absent.
        policy: the floor.
        records: what it contributes.
    """

    name: Name
    federation: Name
    data_dir: FilePath
    identity_file: FilePath
    roster: FilePath
    log_format: LogFormat = "console"
    coordinator: CoordinatorPin
    tls: TlsFiles
    proxy: ProxyConfig | None = None
    policy: SumPolicy = SumPolicy()
    records: Annotated[tuple[AnyRecordConfig, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _record_names_differ(self) -> Self:
        names = [record.name for record in self.records]
        if len(set(names)) != len(names):
            raise ValueError("records: two of them have the same name")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file, overridden by `MOIETY_DEVICE__...` of the environment; see `load_settings`.

        Raises:
            SettingsError: it cannot be used; the text names each wrong field.
        """
        return load_settings(cls, path, prefix=ENVIRONMENT_PREFIX)

    def member_policy(self) -> MemberPolicy:
        """Return the floor with the pinned members.

        Raises:
            SettingsError: the roster cannot be used, or has so many members that the budget's delta protects nobody.
        """
        roster = load_settings(Roster, self.roster, prefix=ENVIRONMENT_PREFIX + "_ROSTER")
        budget, n_members = self.policy.budget, len(roster.members)
        if budget is not None and budget.delta * n_members >= 1:
            raise SettingsError(
                f"policy.budget.delta: must be smaller than 1 / {n_members}, because the roster has {n_members} members"
            )
        return MemberPolicy(
            pinned={member.name: bytes.fromhex(member.identity) for member in roster.members},
            smallest_cohort=self.policy.smallest_cohort,
            smallest_n_required=self.policy.smallest_n_required,
            corrupt_fraction=Fraction(self.policy.corrupt_fraction).limit_denominator(1_000_000),
            smallest_degree=self.policy.smallest_degree,
            largest_degree=self.policy.largest_degree,
            largest_elements=self.policy.largest_elements,
            largest_attempt=self.policy.largest_attempt,
            allowed_encodings=self.policy.allowed_encodings,
        )

    def open_budget(self, holder: str) -> DeviceBudget:
        """Open this member's ledger in its data folder, which must exist.

        Args:
            holder: this installation.

        Raises:
            SettingsError: the budget was changed, but not its reason.
            LedgerError: it cannot be used, or was tampered with.
        """
        found = self.policy.budget
        budget, reason = (None, "") if found is None else (found.as_budget(), found.reason)
        asker, n_devices = self.coordinator.name, 1 if found is None else found.devices_of_person
        return DeviceBudget.open(self.data_dir, self.name, holder, asker, budget, reason, n_devices)

    def read_ledger(self) -> dict[str, Any]:
        """Return what this member's ledger says, for its owner: the budget's standing, and how many exact sums.

        Changes nothing, and may be asked while the member runs.

        Raises:
            SettingsError: there is no ledger yet.
            LedgerError: it cannot be used, or was tampered with.
        """
        found = read_device_ledger(self.data_dir, self.name)
        if found["budget"] is not None and self.policy.budget is not None:
            found["budget"] |= {"devices_of_person": self.policy.budget.devices_of_person}
        return found

    @property
    def fixed_records(self) -> frozenset[str]:
        """Names of the records with one response for ever."""
        return frozenset(record.name for record in self._of_numbers if record.fixed)

    @property
    def response_path(self) -> Path:
        """Where responses to surveys are stored."""
        return self.data_dir / "responses.sqlite"

    @property
    def coordinator_identity(self) -> Identity:
        """The one coordinator that this member dials."""
        return Identity(self.federation, Role.COORDINATOR, self.coordinator.name)

    def batch_policy(self) -> BatchPolicy | None:
        """Return the floor for batches; None where none is answered."""
        policy, parties = self.policy, self.policy.parties
        if parties is None:
            return None
        return BatchPolicy(
            self.coordinator_identity.uri,
            frozenset(parties.names),
            parties.colluding,
            policy.smallest_cohort,
            policy.largest_elements,
            policy.exact_sums,
            policy.largest_epsilon,
            policy.least_epsilon,
            parties.proofs,
            parties.may_miss,
        )

    def kept_records(self) -> dict[str, KeptRecord]:
        """Return the records of numbers that this member keeps, by name. Nothing is read yet."""
        return {record.name: record.as_kept() for record in self._of_numbers}

    def kept_ratings(self) -> dict[str, KeptRatings]:
        """Return the ratings that this member keeps, by name of the record. Nothing is read yet."""
        return {record.name: record.as_kept() for record in self.records if isinstance(record, RatingsRecordConfig)}

    @property
    def _of_numbers(self) -> tuple[RecordConfig, ...]:
        return tuple(record for record in self.records if isinstance(record, RecordConfig))


def read_identity_key(path: Path) -> IdentityKey:
    """Read the Ed25519 key of a member.

    Raises:
        SettingsError: not such a file, or open to other users.
    """
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii").strip()
        secret = bytes.fromhex(text)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; make it with moiety device key") from error
    except ValueError:
        raise SettingsError(f"{path}: not a key made by moiety device key") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{path}: open to other users (mode {stat.S_IMODE(mode):04o}); run: chmod 600 {path}")
    if len(secret) != KEY_BYTES:
        raise SettingsError(f"{path}: not a key made by moiety device key")
    return IdentityKey(_Stored(secret))


def write_identity_key(path: Path, entropy: Entropy) -> bytes:
    """Draw a member's Ed25519 key and write it to a new file that only its owner may read; return the public half.

    Raises:
        FileExistsError: a new key would be a new member.
        OSError: it cannot be written.
    """
    secret = entropy.read(KEY_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret.hex() + "\n")
    return IdentityKey(_Stored(secret)).public_bytes


class _Stored:
    """An entropy source that returns a stored key, once."""

    is_secure = True

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def read(self, n_bytes: int) -> bytes:
        """Return the key."""
        taken, self._secret = self._secret[:n_bytes], self._secret[n_bytes:]
        if len(taken) != n_bytes:
            raise ValueError("a stored key is read once")
        return taken
