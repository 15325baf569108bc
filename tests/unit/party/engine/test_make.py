import pytest
from certificates import authority_in, tls_in
from pydantic import ValidationError

from party.engine.config import EngineConfig
from party.engine.dask_cluster import DaskEngine
from party.engine.make import make_engine
from party.engine.processes import ProcessEngine
from service.identity import Role
from service.settings import TlsFiles
from service.tls import CredentialsError

SCHEDULER = "tls://127.0.0.1:8786"


class Owner:
    name, federation, blas_threads = "bank", "acme", 1

    def __init__(self, folder, **engine):
        self.tls = TlsFiles(**tls_in(folder, Role.PARTY, "bank"))
        self.proxy, self.relays, self.reach = None, (), "direct"
        self.engine = EngineConfig(**engine)


@pytest.fixture
def folder(tmp_path):
    """A federation's authority with certificates of the bank and of workers, and in `cluster` another authority."""
    issue = authority_in(tmp_path, "acme")
    for role, name in ((Role.PARTY, "bank"), (Role.WORKER, "bank"), (Role.WORKER, "shop")):
        issue(role, name)
    (tmp_path / "cluster").mkdir()
    authority_in(tmp_path / "cluster", "cluster-of-bank")(Role.PARTY, "bank")
    return tmp_path


async def test_threads_need_no_engine_and_the_others_are_what_they_are_called(folder):
    tls = tls_in(folder, Role.WORKER, "bank")
    cluster = tls_in(folder / "cluster", Role.PARTY, "bank")
    assert make_engine(Owner(folder)) is None
    processes = make_engine(Owner(folder, kind="processes", workers=3, tls=tls))
    assert (type(processes), processes.n_workers) == (ProcessEngine, 3)
    dask = make_engine(Owner(folder, kind="dask", tls=tls, scheduler=SCHEDULER, cluster_tls=cluster))
    assert type(dask) is DaskEngine


@pytest.mark.parametrize(("role", "name"), [(Role.PARTY, "bank"), (Role.WORKER, "shop")])
async def test_workers_need_a_certificate_of_their_own_party_and_role(folder, role, name):
    with pytest.raises(CredentialsError, match="belongs to"):
        make_engine(Owner(folder, kind="processes", tls=tls_in(folder, role, name)))


async def test_a_cluster_that_trusts_the_federations_authority_is_refused(folder):
    tls, cluster = tls_in(folder, Role.WORKER, "bank"), tls_in(folder, Role.PARTY, "bank")
    with pytest.raises(CredentialsError, match="every member has a certificate"):
        make_engine(Owner(folder, kind="dask", tls=tls, scheduler=SCHEDULER, cluster_tls=cluster))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "processes"}, "moiety pki issue"),
        ({"kind": "threads", "tls": True}, "no workers"),
        ({"kind": "processes", "tls": True, "scheduler": SCHEDULER}, 'belongs to kind "dask"'),
        ({"kind": "dask", "tls": True}, 'scheduler: kind "dask" needs it'),
        ({"kind": "dask", "tls": True, "scheduler": "tcp://127.0.0.1:8786"}, "scheduler"),
        ({"kind": "processes", "tls": True, "workers": 2, "first_port": 65535}, "no 2 ports"),
        ({"kind": "ray"}, "kind"),
    ],
)
def test_a_section_that_cannot_work_is_refused_with_the_field(folder, fields, words):
    if "tls" in fields:
        fields = fields | {"tls": tls_in(folder, Role.WORKER, "bank")}
    with pytest.raises(ValidationError, match=words):
        EngineConfig(**fields)
