"""The process of a device: what its configuration names, opened and joined together."""

from contextlib import AsyncExitStack

import structlog

from device.config import DeviceConfig, read_identity_key
from device.device import Device, describe_standing
from device.factors import FactorDevice
from device.journal import SqliteSumJournal
from device.response_store import ResponseStore
from device.survey import SurveyDevice
from entropy import SystemEntropy
from mpc.protocol.concurrency import run_together
from party.installation import Installation
from service.identity import Identity, Role
from service.settings import SettingsError
from service.tls import load_credentials
from transport.aggregation_client import AggregationClient
from transport.calls.channel import open_channel
from transport.survey_client import SurveyClient

_log = structlog.get_logger(__name__)


async def run_device(config: DeviceConfig) -> None:
    """Be a member until cancelled.

    Raises:
        SettingsError: the key, the roster or the certificate cannot be used, or states another identity; or the data
            folder cannot be made.
        CredentialsError: the certificate files cannot be used.
        InstallationError: another process is this member already.
        LedgerError: the privacy ledger cannot be used, or was tampered with.
        ResponseStoreError: the store of responses cannot be used.
    """
    tls = config.tls
    credentials = load_credentials(authority=tls.authority, certificate=tls.certificate, key=tls.key)
    allowed = [Identity(config.federation, role, config.name) for role in (Role.DEVICE, Role.PARTY)]
    if credentials.identity not in allowed:
        raise SettingsError(
            f"{tls.certificate} is the certificate of {credentials.identity}, but the configuration is for {allowed[0]}"
        )
    if warning := credentials.expiry_warning():
        _log.warning(warning, member=config.name)
    if config.policy.surveys is not None and credentials.identity.role is not Role.DEVICE:
        raise SettingsError("policy.surveys: only devices answer surveys, and this certificate is that of a party")
    identity, policy = read_identity_key(config.identity_file), config.member_policy()
    if policy.pinned.get(config.name) != identity.public_bytes:
        raise SettingsError(f"{config.roster}: it does not list {config.name} with the key in {config.identity_file}")
    Installation.make_folder(config.data_dir)
    coordinator = Identity(config.federation, Role.COORDINATOR, config.coordinator.name)
    async with AsyncExitStack() as stack:
        installation = stack.enter_context(Installation(config.data_dir, SystemEntropy()))
        journal = SqliteSumJournal(config.data_dir / "sums.sqlite")
        stack.callback(journal.close)
        budget = config.open_budget(installation.name)
        stack.callback(budget.close)
        channel = await stack.enter_async_context(open_channel(config.coordinator.address, coordinator, credentials))
        at = f"{coordinator.name} ({config.coordinator.address})"
        client = AggregationClient(at, channel, policy=policy)
        told = describe_standing(budget.standing())
        _log.info("member is ready", member=config.name, coordinator=config.coordinator.address, **told)
        records = config.kept_records()
        factors = FactorDevice(
            name=config.name,
            ratings=config.kept_ratings(),
            budget=budget,
            entropy=SystemEntropy(),
            data_dir=config.data_dir,
            largest_epsilon=config.policy.largest_epsilon,
        )
        stack.callback(factors.close)
        device = Device(
            name=config.name,
            client=client,
            identity=identity,
            policy=policy,
            journal=journal,
            records=records,
            entropy=SystemEntropy(),
            budget=budget,
            data_dir=config.data_dir,
            largest_epsilon=config.policy.largest_epsilon,
            exact_sums=config.policy.exact_sums,
            factors=factors,
        )
        if config.policy.surveys is None:
            await device.run()
            return
        store = ResponseStore(config.response_path)
        stack.callback(store.close)
        surveys = SurveyDevice(
            name=config.name,
            coordinator=coordinator.uri,
            client=SurveyClient(at, channel),
            store=store,
            records=records,
            fixed=config.fixed_records,
            budget=budget,
            max_epsilon=config.policy.surveys.max_epsilon,
            entropy=SystemEntropy(),
            data_dir=config.data_dir,
        )
        await run_together(device.run(), surveys.run())
