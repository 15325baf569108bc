"""Makes the engine that a party's configuration asks for."""

from typing import Literal, Protocol

from party.engine.config import ClusterTls, EngineConfig
from party.engine.engine import Engine
from party.engine.order import WorkerSettings
from service.identity import Identity, Role
from service.reach.proxy_config import ProxyConfig
from service.reach.relay_config import RelayEntry
from service.settings import SettingsError, TlsFiles
from service.tls import CredentialsError, credentials_of, parse_certificate, read_pem

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
        """Threads of each process's arithmetic."""

    @property
    def tls(self) -> TlsFiles:
        """Its own certificate."""

    @property
    def proxy(self) -> ProxyConfig | None:
        """The proxy through which it dials others; None for none."""

    @property
    def relays(self) -> tuple[RelayEntry, ...]:
        """The relays that it uses."""

    @property
    def reach(self) -> Literal["direct", "dial-out"]:
        """Whether others dial it, or it only dials out."""

    @property
    def engine(self) -> EngineConfig:
        """The section."""


def make_engine(owner: EngineOwner) -> Engine | None:
    """Return the party's engine; None where its own process does all work. Nothing is started yet.

    Raises:
        CredentialsError: the certificate of the workers is none, or somebody else's; or the cluster trusts the
            federation's authority, so that any member could run its programs there.
        SettingsError: a library is missing.
    """
    config = owner.engine
    if config.kind == "threads":
        return None
    assert config.tls is not None, "the configuration has checked it"
    ports = tuple(range(config.first_port, config.first_port + config.workers)) if config.first_port else (0,)
    dials_out = owner.reach == "dial-out"
    settings = WorkerSettings(
        federation=owner.federation,
        party=owner.name,
        tls=config.tls,
        proxy=owner.proxy,
        relays=owner.relays,
        dials_out=dials_out,
        host=config.host or (LOOPBACK if config.kind == "processes" or dials_out else ""),
        ports=ports,
        blas_threads=owner.blas_threads,
    )
    if config.kind == "processes":
        from party.engine.processes import ProcessEngine

        check_certificate_of_workers(config.tls, owner)
        return ProcessEngine(settings, config.workers)
    assert config.scheduler is not None, "the configuration has checked it"
    assert config.cluster_tls is not None, "the configuration has checked it"
    check_cluster(config.cluster_tls, owner.tls)
    try:
        from party.engine.dask_cluster import DaskEngine
    except ImportError as error:
        raise SettingsError('engine.kind: "dask" needs a library; pip install "moiety[dask]"') from error
    return DaskEngine(settings, config.workers, config.scheduler, config.cluster_tls)


def check_cluster(cluster: ClusterTls, own: TlsFiles) -> None:
    """Refuse a cluster whose members show certificates of the federation's authority.

    Whoever has a certificate that a cluster trusts runs programs of its own there, and sees all rows. Of the
    federation's authority every other member has one.

    Raises:
        CredentialsError: it is so, or a file cannot be read.
    """
    trusted = [
        parse_certificate(files.authority, read_pem(files.authority, "the authority's certificate")).public_key()
        for files in (cluster, own)
    ]
    if trusted[0] == trusted[1]:
        raise CredentialsError(
            f"{cluster.authority} is the federation's authority, of which every member has a certificate, and could "
            "run programs on the cluster: make an authority of your own for it"
        )


def check_certificate_of_workers(files: TlsFiles, owner: EngineOwner) -> None:
    """Refuse a certificate that is not that of the party's workers.

    Raises:
        CredentialsError: it cannot be used, or is somebody else's.
    """
    credentials, own = credentials_of(files), Identity(owner.federation, Role.WORKER, owner.name)
    if credentials.identity != own:
        raise CredentialsError(f"{files.certificate} belongs to {credentials.identity}, not to {own}")
