"""Proxies of the configuration: what is accepted and sent, what answers and errors mean, and what stays secret."""

import base64

import pytest
from pydantic import BaseModel, ValidationError

from service.codes.coded_text import parted
from service.errors import connection_cause
from service.reach import proxy as proxies
from service.reach.proxy import Proxy, ProxyError, fault_told_by, note_place, parse_proxy
from service.reach.proxy_config import ProxyConfig
from service.settings import explain_fields
from service.tls import CredentialsError, open_proxy

SECRET = "opène sésame: 100%"
SIGN_IN = Proxy("proxy.example:3128", "bank", SECRET)
ADDRESS = "clinic.example:7101"


@pytest.fixture(autouse=True)
def no_places(monkeypatch):
    monkeypatch.setattr(proxies, "_PLACES", set())


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://proxy.example:3128", ("", "proxy.example:3128")),
        ("http://proxy.example:3128/", ("", "proxy.example:3128")),
        ("http://bank@10.0.0.9:80", ("bank", "10.0.0.9:80")),
        ("http://b%40nk%20a@[fd00::9]:3128", ("b@nk a", "[fd00::9]:3128")),
    ],
)
def test_a_proxy_is_a_host_and_a_port_and_perhaps_a_user(url, found):
    assert parse_proxy(url) == found


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("proxy.example:3128", "http://host:port"),
        ("https://proxy.example:3128", "not supported"),
        ("socks5://proxy.example:3128", "not supported"),
        ("http://proxy.example", "the port is missing"),
        ("http://proxy.example:0", "the port is missing"),
        ("http://proxy.example:x", "port is a number"),
        ("http://proxy.example:99999", "port is a number"),
        ("http://:3128", "the host is missing"),
        ("http://proxy_one.example:3128", "no '_'"),
        ("http://proxy.example:3128/path", "nothing behind it"),
        ("http://proxy.example:3128?a=b", "nothing behind it"),
        ("http://a%3Ab@proxy.example:3128", "neither a colon"),
        ("http://a%0D%0AX:@proxy.example:3128", "password_file"),
        ("http://a%0D%0AX@proxy.example:3128", "control characters"),
        ("http://bank:sesame@proxy.example:3128", "password_file"),
    ],
)
def test_what_is_no_proxy_is_refused_and_a_password_in_it_is_not_repeated(url, words):
    with pytest.raises(ValidationError) as caught:
        ProxyConfig.model_validate(url)
    told = " ".join(explain_fields(caught.value))
    assert words in told
    assert "sesame" not in told


def test_a_url_alone_is_a_section_with_nothing_else():
    assert ProxyConfig.model_validate("http://proxy:3128") == ProxyConfig(url="http://proxy:3128")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "http://bank@proxy:3128"}, "password_file: missing"),
        ({"url": "http://proxy:3128", "password_file": "word"}, "names no user"),
        ({"url": "http://proxy:3128", "direct": ["*.example"]}, "is not a host"),
        ({"url": "http://proxy:3128", "password": "sesame"}, "password"),
    ],
)
def test_user_and_password_go_together(fields, words):
    with pytest.raises(ValidationError) as caught:
        ProxyConfig.model_validate(fields)
    told = " ".join(explain_fields(caught.value))
    assert words in told
    assert "sesame" not in told


def opened(tmp_path, content, mode=0o600):
    path = tmp_path / "word"
    path.write_bytes(content)
    path.chmod(mode)

    class File(BaseModel):
        proxy: ProxyConfig

    fields = {"url": "http://bank@proxy.example:3128", "password_file": "word"}
    return open_proxy(File.model_validate({"proxy": fields}, context={"folder": tmp_path}).proxy)


def test_the_password_is_the_first_line_of_its_file_and_is_shown_nowhere(tmp_path):
    proxy = opened(tmp_path, f"{SECRET}\r\nsecond line\n".encode())
    assert proxy == SIGN_IN
    token = base64.b64encode(f"bank:{SECRET}".encode()).decode()
    assert f"Proxy-Authorization: Basic {token}\r\n" in proxy.request(ADDRESS).decode()
    with pytest.raises(ProxyError) as caught:
        proxy.check_answer(b"HTTP/1.1 407 no\r\n\r\n", ADDRESS)
    for shown in (repr(proxy), str(proxy), f"{proxy}", str(caught.value), repr(caught.value)):
        assert SECRET not in shown
        assert token not in shown


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "is empty"),
        (b"\nsesame", 0o600, "is empty"),
        (b"sesame\x00", 0o600, "control characters"),
        (b"\xff", 0o600, "not text"),
        (b"sesame", 0o644, "open to other users"),
    ],
)
def test_a_file_that_holds_no_password_or_lies_open_is_refused_without_its_content(tmp_path, content, mode, words):
    with pytest.raises(CredentialsError, match=words) as caught:
        opened(tmp_path, content, mode)
    assert "sesame" not in str(caught.value)


def test_a_missing_file_is_named():
    config = ProxyConfig(url="http://bank@proxy:3128", password_file="nowhere/word")
    with pytest.raises(CredentialsError, match="nowhere/word of the proxy's password cannot be read"):
        open_proxy(config)


def test_without_a_user_nothing_is_said_of_one():
    proxy = open_proxy(ProxyConfig(url="http://proxy.example:3128"))
    assert proxy.request("[fd00::7]:7101") == b"CONNECT [fd00::7]:7101 HTTP/1.1\r\nHost: [fd00::7]:7101\r\n\r\n"
    assert proxy.channel_options(ADDRESS) == {"grpc.http_connect_server": ADDRESS}


def test_hosts_of_the_own_network_are_dialled_directly():
    proxy = Proxy("proxy:3128", direct=("hub.example", "10.0.0.0/8", "fd00::/8"))
    found = {
        address: proxy.leads_to(address)
        for address in ("hub.example:1", "HUB.example:1", "10.9.9.9:1", "[fd00::7]:1", "a.hub.example:1", "192.0.2.1:1")
    }
    assert list(found.values()) == [False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("answer", "proxy", "code", "words"),
    [
        (b"HTTP/1.1 407 x", SIGN_IN, "proxy-refuses-us", "it does not accept user bank"),
        (b"HTTP/1.1 407 x", Proxy("proxy:1"), "proxy-refuses-us", "no user is configured"),
        (b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=x", SIGN_IN, "proxy-refuses-us", "does not accept user"),
        (b"HTTP/1.1 407 x\r\nproxy-authenticate: Negotiate", SIGN_IN, "proxy-refuses-us", "another scheme than Basic"),
        (b"HTTP/1.0 403 Forbidden", SIGN_IN, "proxy-forbids", "403 for clinic.example:7101"),
        (b"HTTP/1.1 502 Bad Gateway", SIGN_IN, "proxy-finds-nobody", "502"),
        (b"HTTP/1.1 503 x", SIGN_IN, "proxy-finds-nobody", "503"),
        (b"HTTP/1.1 504 x", SIGN_IN, "proxy-finds-nobody", "504"),
        (b"HTTP/1.1 405 x", SIGN_IN, "proxy-fails", "405"),
        (b"HTTP/1.1 99999 x", SIGN_IN, "proxy-fails", "does not speak HTTP"),
        (b"SSH-2.0-x", SIGN_IN, "proxy-fails", "does not speak HTTP"),
    ],
)
def test_each_answer_that_is_no_connection_has_a_reason_and_a_fix(answer, proxy, code, words):
    with pytest.raises(ProxyError) as caught:
        proxy.check_answer(answer + b"\r\n\r\n", ADDRESS)
    assert (caught.value.code, bool(caught.value.fix)) == (code, True)
    assert words in str(caught.value)


def test_a_connection_is_a_status_of_two_hundred():
    SIGN_IN.check_answer(b"HTTP/1.1 200 Connection established\r\n\r\n", ADDRESS)


@pytest.mark.parametrize(
    ("details", "code"),
    [
        ("last error: UNKNOWN: ipv4:10.0.0.9:3128: HTTP proxy returned response code 407", "proxy-refuses-us"),
        ("last error: UNKNOWN: ipv4:10.0.0.9:3128: HTTP proxy returned response code 403", "proxy-forbids"),
        ("last error: UNKNOWN: ipv4:10.0.0.9:3128: HTTP proxy returned response code 504", "proxy-finds-nobody"),
        ("last error: UNKNOWN: ipv4:10.0.0.9:3128: HTTP proxy returned response code 418", "proxy-fails"),
        ("ipv4:10.0.0.9:3128: Failed to connect to remote host: Connection refused", "proxy-not-reached"),
        ("ipv4:10.0.0.9:3128: Failed to connect to remote host: Timeout occurred: FD shutdown", "proxy-not-reached"),
        ("errors resolving proxy.example:3128: [hostname lookup error: Domain name not found]", "proxy-unknown"),
        ("ipv4:10.0.0.9:31280: Failed to connect to remote host: Connection refused", "nothing-listens"),
        ("ipv4:110.0.0.9:3128: Failed to connect to remote host: Connection refused", "nothing-listens"),
        ("errors resolving my.proxy.example:3128: [hostname lookup error: Domain name not found]", "host-unknown"),
        ("ipv4:10.0.0.9:3128: CERTIFICATE_VERIFY_FAILED", "certificate-not-trusted"),
    ],
)
def test_what_the_library_says_of_the_own_proxy_is_not_said_of_the_member(details, code):
    note_place("10.0.0.9:3128")
    note_place("proxy.example:3128")
    assert parted(connection_cause(details))[1] == code


def test_a_connection_that_stood_may_have_been_closed_by_either():
    assert "proxy" not in connection_cause("recvmsg: Connection reset by peer")
    note_place("10.0.0.9:3128")
    assert "or our proxy, through which it is called" in connection_cause("recvmsg: Connection reset by peer")


def test_without_a_proxy_nothing_is_said_of_one():
    assert fault_told_by("ipv4:10.0.0.9:3128: Failed to connect to remote host: Connection refused") is None
