from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from party.config import PartyConfig

MakeConfig = Callable[..., PartyConfig]


@pytest.fixture
def make_config(tmp_path: Path) -> MakeConfig:
    """A configuration of the party `north` with one table, `visits`; keyword arguments change the table."""

    def make(**table: Any) -> PartyConfig:
        visits = {"name": "visits", "path": "visits.csv", "bounds": {"age": [0, 120], "stay": [0, 30]}, **table}
        document = {
            "name": "north",
            "federation": "clinics",
            "data_dir": "north-data",
            "tls": {"authority": "ca.pem", "certificate": "north.pem", "key": "north.key"},
            "coordinator": {"name": "coordinator", "address": "127.0.0.1:7100"},
            "peers": {"south": "127.0.0.1:7102", "west": "127.0.0.1:7103"},
            "tables": [visits],
        }
        return PartyConfig.model_validate(document, context={"folder": tmp_path})

    return make
