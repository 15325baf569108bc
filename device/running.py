"""The process of a device: what its configuration names, opened and joined together; and what SIGHUP changes of it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import structlog

from device.config import DeviceConfig, read_identity_key
from device.device import Device, answer_rounds, describe_standing
from device.factors import FactorDevice
from device.journal import SqliteSampleJournal, SqliteSumJournal
from device.questions.answering import QuestionDevice, answer_questions
from device.questions.batch import BatchDevice
from device.questions.survey import SurveyDevice
from device.response_store import ResponseStore
from entropy import SystemEntropy
from mpc.protocol.concurrency import run_together
from mpc.secagg.policy import MemberPolicy
from service.files.installation import Installation
from service.identity import Identity, Role
from service.settings import SettingsError
from service.tls import Credentials, credentials_of
from service.trust.changes import at_hangup, check_changes, guarded
from service.trust.expiry import warn_every_day
from transport.aggregation import CALL_S, PATIENCE_S
from transport.aggregation_client import AggregationClient
from transport.calls.peers import PeerChannels
from transport.question_client import QuestionClient

MAY_CHANGE = ("tls", "proxy", "roster", "coordinator", "policy")
"""Fields that SIGHUP may change: of `coordinator` the address alone, of `policy` all but the budget and whether surveys
and batches are answered."""

KINDS: tuple[type[QuestionDevice[Any]], ...] = (SurveyDevice, BatchDevice)
"""What answers each kind of question that is answered by one message."""

_log = structlog.get_logger(__name__)


class RunningDevice:
    """A device that runs, and what of it changes when its files are read again.

    Args:
        config: configuration in use.
        credentials: what `own_credentials` has read.
        device: device that answers rounds now.
        questions: devices by kind of question, in use now, without kinds that the owner rules out.
        channels: open channels, one to the coordinator among them.
        channels: with the one to the coordinator.
    """

    def __init__(
        self,
        config: DeviceConfig,
        credentials: Credentials,
        device: Device,
        questions: Mapping[str, QuestionDevice[Any]],
        channels: PeerChannels,
    ) -> None:
        self.credentials = credentials
        self.device = device
        self.questions = questions
        self._config = config
        self._channels = channels

    async def run(self) -> None:
        """Answer rounds, and the questions that the owner allows, until cancelled."""
        questions = (answer_questions(lambda kind=kind: self.questions[kind]) for kind in self.questions)  # type: ignore[misc]
        await run_together(answer_rounds(lambda: self.device), *questions)

    def use(self, config: DeviceConfig) -> None:
        """Take over a configuration and the files that it names, all of it or nothing.

        A round goes on under the rules that it began with, over a new connection.

        Raises:
            SettingsError: a field differs that changes only at a restart, or the roster cannot be used.
            CredentialsError: the files cannot be used.
        """
        changed = check_changes(self._config, config, MAY_CHANGE)
        _check_lasting(self._config, config)
        credentials, policy = own_credentials(config), own_policy(config, self.device.identity.public_bytes)
        self.credentials.check_successor(credentials)
        before = self._channels[config.coordinator.name]
        self._channels.open(coordinator_of(config), credentials)
        channel = self._channels[config.coordinator.name]
        # A channel that nobody has closes itself: this one stays for the calls that are in flight.
        asyncio.get_running_loop().call_later(CALL_S + PATIENCE_S, lambda kept: None, before)
        self.device.client.use(channel, policy)
        self.device = replace(
            self.device,
            policy=policy,
            largest_epsilon=config.policy.largest_epsilon,
            least_epsilon=config.policy.least_epsilon,
            exact_sums=config.policy.exact_sums,
            tells_refusals=config.policy.tell_refusals,
        )
        if self.device.factors is not None:
            self.device.factors.largest_epsilon = config.policy.largest_epsilon
            self.device.factors.least_epsilon = config.policy.least_epsilon
        for answering in self.questions.values():
            answering.client.use(channel)
        self.questions = {kind: one.configured(config, credentials) for kind, one in self.questions.items()}
        self.credentials, self._config = credentials, config
        _log.info("files were read again", member=config.name, changed=", ".join(changed) or "no field")


def _check_lasting(before: DeviceConfig, after: DeviceConfig) -> None:
    """Refuse changes within `coordinator` and `policy` that take effect only at a restart."""
    fixed = {
        "coordinator.name": (before.coordinator.name, after.coordinator.name),
        "policy.budget": (before.policy.budget, after.policy.budget),
        "policy.parties": (before.policy.parties is None, after.policy.parties is None),
        "policy.surveys": (before.policy.surveys is None, after.policy.surveys is None),
    }
    if differ := [name for name, (one, other) in fixed.items() if one != other]:
        raise SettingsError(f"{', '.join(differ)}: changes only when the device is restarted; nothing was taken over")


def coordinator_of(config: DeviceConfig) -> Mapping[Identity, tuple[str, ...]]:
    """Return whom the device dials, and where."""
    return {config.coordinator_identity: config.coordinator.address}


def own_credentials(config: DeviceConfig) -> Credentials:
    """Load the files of `[tls]`.

    Raises:
        CredentialsError: they cannot be used.
        SettingsError: they belong to somebody else, or to a party that is to answer surveys.
    """
    tls = config.tls
    credentials = credentials_of(tls, config.proxy)
    allowed = [Identity(config.federation, role, config.name) for role in (Role.DEVICE, Role.PARTY)]
    if credentials.identity not in allowed:
        raise SettingsError(
            f"{tls.certificate} is the certificate of {credentials.identity}, but the configuration is for {allowed[0]}"
        )
    if config.policy.surveys is not None and credentials.identity.role is not Role.DEVICE:
        raise SettingsError("policy.surveys: only devices answer surveys, and this certificate is that of a party")
    if config.policy.parties is not None and credentials.identity.role is not Role.DEVICE:
        raise SettingsError("policy.parties: only devices answer batches, and this certificate is that of a party")
    return credentials


def own_policy(config: DeviceConfig, public: bytes) -> MemberPolicy:
    """Return the floor with the members of the roster, which must list this one.

    Args:
        config: configuration of the device.
        public: its public signing key.

    Raises:
        SettingsError: the roster cannot be used, or does not list it.
    """
    policy = config.member_policy()
    if policy.pinned.get(config.name) != public:
        raise SettingsError(f"{config.roster}: it does not list {config.name} with the key in {config.identity_file}")
    return policy


async def run_devices(*read: Callable[[], DeviceConfig]) -> None:
    """Be several members in one process until cancelled. SIGHUP reads the files of all of them again.

    Args:
        read: reads the configuration of each; called at the start, and at each SIGHUP.

    Raises:
        as `run_device`.
    """
    running: list[tuple[RunningDevice, Callable[[], DeviceConfig]]] = []

    def reload(device: RunningDevice, read_again: Callable[[], DeviceConfig]) -> Callable[[], None]:
        return guarded(lambda: device.use(read_again()))

    def hung_up() -> None:
        for device, read_again in running:
            reload(device, read_again)()

    with at_hangup(hung_up):
        await run_together(
            *(run_device(one(), lambda device, one=one: running.append((device, one))) for one in read)  # type: ignore[misc]
        )


async def run_device(config: DeviceConfig, on_start: Callable[[RunningDevice], None] = lambda device: None) -> None:
    """Be a member until cancelled.

    Args:
        config: configuration of the device.
        on_start: called once it is ready.

    Raises:
        SettingsError: the key, the roster or the certificate cannot be used, or states another identity; or the data
            folder cannot be made.
        CredentialsError: the certificate files cannot be used.
        InstallationError: another process is this member already.
        LedgerError: the privacy ledger cannot be used, or was tampered with.
        SumJournalError: the memory of rounds or of coins cannot be used.
        ResponseStoreError: the store of responses cannot be used.
    """
    credentials = own_credentials(config)
    identity = read_identity_key(config.identity_file)
    policy = own_policy(config, identity.public_bytes)
    Installation.make_folder(config.data_dir)
    channels = PeerChannels()
    async with AsyncExitStack() as stack:
        installation = stack.enter_context(Installation(config.data_dir, SystemEntropy()))
        journal = SqliteSumJournal(config.data_dir / "sums.sqlite")
        stack.callback(journal.close)
        samples = SqliteSampleJournal(config.data_dir / "samples.sqlite")
        stack.callback(samples.close)
        budget = config.open_budget(installation.name)
        stack.callback(budget.close)
        channels.open(coordinator_of(config), credentials)
        stack.push_async_callback(channels.close)
        at = f"{config.coordinator.name} ({', '.join(config.coordinator.address)})"
        records = config.kept_records()
        factors = FactorDevice(
            name=config.name,
            ratings=config.kept_ratings(),
            budget=budget,
            entropy=SystemEntropy(),
            data_dir=config.data_dir,
            largest_epsilon=config.policy.largest_epsilon,
            least_epsilon=config.policy.least_epsilon,
            samples=samples,
        )
        stack.callback(factors.close)
        device = Device(
            name=config.name,
            client=AggregationClient(at, channels[config.coordinator.name], policy=policy),
            identity=identity,
            policy=policy,
            journal=journal,
            records=records,
            entropy=SystemEntropy(),
            budget=budget,
            data_dir=config.data_dir,
            largest_epsilon=config.policy.largest_epsilon,
            least_epsilon=config.policy.least_epsilon,
            exact_sums=config.policy.exact_sums,
            factors=factors,
            tells_refusals=config.policy.tell_refusals,
        )
        questions: dict[str, QuestionDevice[Any]] = {}
        for answering in KINDS:
            if (settings := answering.settings(config, credentials)) is None:
                continue
            store = ResponseStore(config.data_dir / answering.store_name)
            stack.callback(store.close)
            questions[answering.kind] = answering(
                name=config.name,
                client=QuestionClient(at, channels[config.coordinator.name], answering.kind),
                store=store,
                records=records,
                budget=budget,
                entropy=SystemEntropy(),
                data_dir=config.data_dir,
                tells_refusals=config.policy.tell_refusals,
                **settings,
            )
        running = RunningDevice(config, credentials, device, questions, channels)
        expiry = asyncio.create_task(warn_every_day(lambda: running.credentials, config.name))
        stack.callback(expiry.cancel)
        told = describe_standing(budget.standing())
        on_start(running)
        _log.info("member is ready", member=config.name, coordinator=", ".join(config.coordinator.address), **told)
        await running.run()
