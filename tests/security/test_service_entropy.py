"""A service takes no reproducible randomness: whoever knows the seed would know every share and all noise."""

import pytest
from devices import device_in

from coordinator.sums.answering import MaskedSums
from entropy import InsecureTestEntropy, SystemEntropy
from party.config import PartyConfig
from party.job_sessions import JobSessions
from transport.messages.mailbox import Mailboxes


@pytest.fixture
def config(tmp_path) -> PartyConfig:
    document = {
        "name": "north",
        "federation": "clinics",
        "data_dir": "north-data",
        "tls": {"authority": "ca.pem", "certificate": "north.pem", "key": "north.key"},
        "coordinator": {"name": "coordinator", "address": "127.0.0.1:7100"},
        "peers": {"south": "127.0.0.1:7102", "west": "127.0.0.1:7103"},
        "tables": [{"name": "visits", "path": "visits.csv", "bounds": {"age": [0, 120]}}],
    }
    return PartyConfig.model_validate(document, context={"folder": tmp_path})


def test_a_party_refuses_the_entropy_of_tests_and_takes_the_systems(config):
    mailboxes = Mailboxes()
    with pytest.raises(ValueError, match="secure randomness"):
        JobSessions(config, mailboxes, {}, InsecureTestEntropy("guessable"))
    JobSessions(config, mailboxes, {}, SystemEntropy())


def test_a_device_refuses_it_its_masks_and_noise_come_from_there(tmp_path):
    with pytest.raises(ValueError, match="secure randomness"), device_in(tmp_path, entropy=InsecureTestEntropy("x")):
        pass
    with device_in(tmp_path, entropy=SystemEntropy()) as device:
        assert device.entropy.is_secure


def test_a_coordinator_refuses_it_its_rounds_are_named_from_there():
    with pytest.raises(ValueError, match="secure randomness"):
        MaskedSums({}, InsecureTestEntropy("guessable"))
    MaskedSums({}, SystemEntropy())
