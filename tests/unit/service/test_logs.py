import io
import json
from collections.abc import Iterator

import numpy as np
import pytest
import structlog

from service.logs import LogFormat, configure_logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def lines_of(log_format: LogFormat) -> tuple[structlog.typing.FilteringBoundLogger, io.StringIO]:
    out = io.StringIO()
    configure_logs(log_format, stream=out)
    return structlog.get_logger(), out


def test_json_lines_keep_text_and_numbers() -> None:
    log, out = lines_of("json")
    log.info("job started", job="j1", stage="keys", n_parties=3)
    event = json.loads(out.getvalue())
    assert (event["event"], event["job"], event["stage"], event["n_parties"]) == ("job started", "j1", "keys", 3)
    assert event["level"] == "info"
    assert event["timestamp"].endswith("Z")


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize(
    "secret",
    [
        b"123456789",
        bytearray(b"123456789"),
        np.array([123456789]),
        np.uint64(123456789),
        [123456789],
        (123456789,),
        {"share": 123456789},
        "-----BEGIN PRIVATE KEY-----\n123456789",
    ],
    ids=lambda secret: type(secret).__name__,
)
def test_shares_and_keys_are_withheld(log_format: LogFormat, secret: object) -> None:
    log, out = lines_of(log_format)
    log.info("sent", share=secret)
    assert "withheld" in out.getvalue()
    assert "123456789" not in out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_tracebacks_show_no_local_variables(log_format: LogFormat) -> None:
    log, out = lines_of(log_format)
    share = 123456789
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        log.exception("job failed")
    assert "broken" in out.getvalue()
    assert str(share) not in out.getvalue()


def test_long_text_is_cut() -> None:
    log, out = lines_of("json")
    log.info("refused", reason="x" * 100_000)
    assert len(out.getvalue()) < 3000
