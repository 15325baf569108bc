"""Section `[engine]` of `party.toml`: who shares and multiplies the rows of a joint table."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from analyses.job.job import Name
from analyses.job.schema import MAX_WORKERS
from service.reach.hosts import Host
from service.settings import MAX_PORT, FilePath, Settings, TlsFiles

TLS_SCHEME = "tls://"


class ClusterTls(Settings):
    """The PEM files by which a Dask client and its cluster know each other: of an authority of the owner's own.

    Whoever has a certificate of this authority may run any program on the owner's machines, so it must not be that of
    the federation, of which every member has one.

    Attributes:
        authority: the certificate of that authority.
        certificate: certificate of this party as a client of the cluster.
        key: the private key of that certificate.
    """

    authority: FilePath
    certificate: FilePath
    key: FilePath


class EngineConfig(Settings):
    """Who works on the rows of PCA, low-rank, least squares and logistic regression by moments.

    Workers are used in jobs of which every party has some; else, and in all other analyses, the party does the work in
    threads of its own process.

    Attributes:
        kind: `threads`, no workers; `processes`, workers are processes on this host; `dask`, workers are those of a
            Dask cluster of the owner's, on as many hosts as it has.
        workers: how many parts of the rows may be worked on at once; other members learn the number. In a job it is
            that of the party that has fewest.
        host: where workers of other parties reach ours, and where ours listen. With `dask` by default the host under
            which the cluster knows the worker. Workers of a party that only dials out listen on loopback: each of them
            stays connected to the party's relays, and others reach it by these.
        peer_hosts: party to the hosts on which its workers may be dialled, beside the host that `peers` names: host
            names, addresses, or networks such as 10.0.7.0/24. A worker on another host is not dialled.
        first_port: a worker listens on the first free port of as many as there are workers, from this one on; 0 lets
            the system choose.
        tls: files with which our workers prove whose they are: a certificate of the federation for `worker/NAME`, where
            NAME is this party's. With `dask` these are paths on the machines of the cluster.
        scheduler: with `dask`, the address of the cluster's scheduler, `tls://host:port`.
        cluster_tls: with `dask`, by which we and the cluster know each other.
    """

    kind: Literal["threads", "processes", "dask"] = "threads"
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 2
    host: Annotated[str, Field(min_length=1)] | None = None
    peer_hosts: dict[Name, tuple[Host, ...]] = Field(default_factory=dict)
    first_port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 0
    tls: TlsFiles | None = None
    scheduler: Annotated[str, Field(pattern=rf"^{TLS_SCHEME}[^\s/]+:[0-9]+$")] | None = None
    cluster_tls: ClusterTls | None = None

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind == "threads":
            if self.tls is not None:
                raise ValueError('tls: kind "threads" has no workers that need it')
        elif self.tls is None:
            raise ValueError("tls: workers need a certificate of their own; `moiety pki issue --member worker/NAME`")
        of_cluster = {"scheduler": self.scheduler, "cluster_tls": self.cluster_tls}
        for name, given in of_cluster.items():
            if self.kind == "dask" and given is None:
                raise ValueError(f'{name}: kind "dask" needs it')
            if self.kind != "dask" and given is not None:
                raise ValueError(f'{name}: belongs to kind "dask" only')
        if self.first_port and self.first_port + self.workers - 1 > MAX_PORT:
            raise ValueError(f"first_port: there are no {self.workers} ports from {self.first_port} on")
        return self
