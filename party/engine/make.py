"""Makes the engine that a party's configuration asks for."""

from typing import Protocol

from party.engine.config import EngineConfig
from party.engine.engine import Engine
from party.engine.order import WorkerSettings
from service.identity import Identity, Role
from service.settings import TlsFiles
from service.tls import CredentialsError, credentials_of

LOOPBACK = "127.0.0.1"


class EngineOwner(Protocol):
    """What this room needs of a party's configuration."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def federation(self) -> str:
        """Its federation."""

    @property
    def blas_threads(self) -> int:
        """Of the arithmetic of each process."""

    @property
    def tls(self) -> TlsFiles:
        """Its own certificate."""

    @property
    def engine(self) -> EngineConfig:
        """The section."""


def make_engine(owner: EngineOwner) -> Engine | None:
    """Return the party's engine; None where its own process does all work. Nothing is started yet.

    Raises:
        CredentialsError: the certificate of the workers is none, or somebody else's; or the cluster trusts the
            federation's authority, so that any member could run its programs there.
    """
    config = owner.engine
    if config.kind == "threads":
        return None
    assert config.tls is not None, "the configuration has checked it"
    ports = tuple(range(config.first_port, config.first_port + config.workers)) if config.first_port else (0,)
    settings = WorkerSettings(
        federation=owner.federation,
        party=owner.name,
        tls=config.tls,
        host=config.host or LOOPBACK,
        ports=ports,
        blas_threads=owner.blas_threads,
    )
    from party.engine.processes import ProcessEngine

    check_certificate_of_workers(config.tls, owner)
    return ProcessEngine(settings, config.workers)


def check_certificate_of_workers(files: TlsFiles, owner: EngineOwner) -> None:
    """Refuse a certificate that is not that of the party's workers.

    Raises:
        CredentialsError: it cannot be used, or is somebody else's.
    """
    credentials, own = credentials_of(files), Identity(owner.federation, Role.WORKER, owner.name)
    if credentials.identity != own:
        raise CredentialsError(f"{files.certificate} belongs to {credentials.identity}, not to {own}")
