import pytest
from starlette.requests import Request

from page.access import PageError, bears, is_local, read_token, same
from service.watch.page_config import PageConfig

TOKEN = "correct-horse-battery"


def request(**headers: str) -> Request:
    return Request({"type": "http", "headers": [(k.encode(), v.encode()) for k, v in headers.items()]})


def token_in(folder, content=TOKEN, mode=0o600):
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_token_is_read_without_the_end_of_its_line(tmp_path):
    assert read_token(token_in(tmp_path, TOKEN + "\n")) == TOKEN
    assert read_token(None) is None


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [(TOKEN, 0o640, "chmod 600"), ("short\n", 0o600, "at least 16 characters"), (" " * 40, 0o600, "at least 16")],
)
def test_a_token_that_others_may_know_or_guess_is_refused_and_not_quoted(tmp_path, content, mode, words):
    with pytest.raises(PageError, match=words) as caught:
        read_token(token_in(tmp_path, content, mode))
    assert content not in str(caught.value)
    with pytest.raises(PageError, match="cannot be read"):
        read_token(tmp_path / "absent")


def test_secrets_are_compared_whole():
    assert same("ä", "ä")
    assert not same(TOKEN, TOKEN[:-1])
    assert not same("", TOKEN)


@pytest.mark.parametrize(
    ("header", "is_right"),
    [(f"Bearer {TOKEN}", True), (f"bearer {TOKEN} ", True), (f"Basic {TOKEN}", False), (TOKEN, False), ("", False)],
)
def test_a_bearer_token_is_asked_for(header, is_right):
    assert bears(request(authorization=header), TOKEN) == is_right


@pytest.mark.parametrize(
    ("host", "is_right"),
    [
        ("127.0.0.1:7180", True),
        ("localhost:7180", True),
        ("[::1]:7180", True),
        ("localhost", True),
        ("evil.example:7180", False),
        ("127.0.0.1.evil.example:7180", False),
        ("", False),
    ],
)
def test_a_name_of_somebody_else_that_leads_here_is_not_local(host, is_right, tmp_path):
    assert is_local(PageConfig(), request(host=host)) == is_right
    assert not is_local(PageConfig(listen="0.0.0.0:1", token_file=tmp_path / "token"), request(host=host))
