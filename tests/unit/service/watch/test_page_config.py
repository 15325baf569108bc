import pytest
from pydantic import ValidationError

from service.watch.page_config import PageConfig


@pytest.mark.parametrize("listen", ["127.0.0.1:7180", "127.9.9.9:1", "[::1]:7180", "localhost:0"])
def test_a_page_on_a_loopback_address_needs_no_token(listen):
    assert PageConfig(listen=listen).is_on_loopback


@pytest.mark.parametrize("listen", ["0.0.0.0:7180", "[::]:7180", "192.0.2.7:1", "bank.example.org:7180"])
def test_any_other_needs_one(listen, tmp_path):
    with pytest.raises(ValidationError, match="a page that others than this machine can reach needs a token"):
        PageConfig(listen=listen)
    assert not PageConfig(listen=listen, token_file=tmp_path / "token").is_on_loopback


def test_a_certificate_needs_its_key(tmp_path):
    with pytest.raises(ValidationError, match="give both or neither"):
        PageConfig(certificate=tmp_path / "page.pem")
