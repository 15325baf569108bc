import pytest
import structlog

from entropy import InsecureTestEntropy
from service.settings import SettingsError
from transport.messages.inbox import Inbox
from transport.messages.mesh import MeshConfig
from transport.messages.session import GrpcSession

FILE = """
name = "bob"
federation = "acme"
tls = { authority = "ca.pem", certificate = "bob.pem", key = "bob.key" }
members = [
    { name = "alice", address = "one.example:7201" },
    { name = "bob", address = "two.example:7201" },
]
"""


def load(tmp_path, text) -> MeshConfig:
    path = tmp_path / "bob.toml"
    path.write_text(text)
    return MeshConfig.load(path)


def test_members_are_numbered_in_the_order_of_the_file(tmp_path):
    config = load(tmp_path, FILE)
    assert config.names == {1: "alice", 2: "bob"}
    assert config.me == 2
    assert config.tls.key == tmp_path / "bob.key"


def test_the_environment_overrides_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MOIETY_MESH__LISTEN", "0.0.0.0:7000")
    assert load(tmp_path, FILE).listen == "0.0.0.0:7000"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('name = "bob"\n', 'name = "dave"\n', "members: 'dave', the name of this member, is missing"),
        ('{ name = "alice"', '{ name = "bob"', "'bob' appears more than once"),
        ("one.example:7201", "one.example", "members.0.address"),
        ('name = "bob"\n', 'name = "bob"\ndeadline_s = 0\n', "deadline_s"),
        ('{ name = "alice", address = "one.example:7201" },', "", "members"),
    ],
)
def test_a_file_that_cannot_work_is_refused(tmp_path, old, new, told):
    with pytest.raises(SettingsError, match=told):
        load(tmp_path, FILE.replace(old, new, 1))


async def test_who_is_accused_of_a_wrong_share_is_logged_by_name():
    session = GrpcSession(
        job_id="job-1",
        terms=b"",
        me=1,
        names={1: "alice", 2: "bob"},
        entropy=InsecureTestEntropy("alice"),
        deadline_s=1.0,
        inbox=Inbox({2: "bob"}),
        channels={2: None},
        on_progress=lambda stage, done, total: None,
    )
    with structlog.testing.capture_logs() as logs:
        session.accuse(2, "computation/opening 0", "bob sent a corrupted share, which was corrected")
    (entry,) = logs
    assert (entry["log_level"], entry["member"], entry["job"]) == ("warning", "bob", "job-1")
    assert entry["event"] == "bob sent a corrupted share, which was corrected"
