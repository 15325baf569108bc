from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator

from service.settings import Address, Addresses, FilePath, Settings, SettingsError, check_addresses, load_settings


class Section(Settings):
    key: FilePath


class Example(Settings):
    name: str
    listen: Address = "127.0.0.1:7000"
    hub: Addresses = ("127.0.0.1:7100",)
    threads: int = 1
    allowed: tuple[str, ...] = ()
    tls: Section


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "example.toml"
    path.write_text('name = "north"\n[tls]\nkey = "north.key"\n')
    return path


def load(file: Path, **environ: str) -> Example:
    return load_settings(Example, file, prefix="MOIETY_EXAMPLE", environ=environ)


def refusal(file: Path, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(file, **environ)
    return str(caught.value)


def test_relative_paths_start_at_the_folder_of_the_file(file: Path) -> None:
    assert load(file).tls.key == file.parent / "north.key"


def test_absolute_paths_stay(file: Path) -> None:
    assert load(file, MOIETY_EXAMPLE__TLS__KEY="/run/secrets/key").tls.key == Path("/run/secrets/key")


def test_environment_overrides_plain_fields_sections_and_lists(file: Path) -> None:
    settings = load(
        file,
        MOIETY_EXAMPLE__THREADS="4",
        MOIETY_EXAMPLE__TLS__KEY="other.key",
        MOIETY_EXAMPLE__ALLOWED='["ada", "grace"]',
    )
    assert (settings.threads, settings.tls.key.name, settings.allowed) == (4, "other.key", ("ada", "grace"))


class Rates(Settings):
    rate: float | None = None
    on: bool = False


class Strict(Settings):
    period: str = ""
    rates: Rates = Rates()


@pytest.mark.parametrize(("text", "rate"), [("0.5", 0.5), ("1e-6", 1e-6), ("2", 2.0)])
def test_the_environment_may_give_a_strict_number_and_the_file_no_text_for_it(tmp_path: Path, text, rate) -> None:
    file = tmp_path / "strict.toml"
    file.write_text("")
    environ = {"X__RATES__RATE": text, "X__PERIOD": "2026.4"}
    settings = load_settings(Strict, file, prefix="X", environ=environ)
    assert (settings.rates.rate, settings.period) == (rate, "2026.4")
    file.write_text(f'rates = {{ rate = "{text}" }}')
    with pytest.raises(SettingsError, match=r"rates.rate: must be a number"):
        load_settings(Strict, file, prefix="X", environ={})


def test_the_environment_gives_whole_numbers_and_truth_values_as_text_and_the_file_does_not(file: Path) -> None:
    (file.parent / "strict.toml").write_text("")
    environ = {"X__RATES__ON": "true", "X__RATES__RATE": "2"}
    assert load_settings(Strict, file.parent / "strict.toml", prefix="X", environ=environ).rates == Rates(
        rate=2, on=True
    )
    file.write_text('threads = "4"\n' + file.read_text())
    assert "threads: must be a whole number, got '4'" in refusal(file)


@pytest.mark.parametrize("text", ["much", "", "true"])
def test_text_of_the_environment_that_is_no_number_is_refused_where_one_is_asked_for(tmp_path: Path, text) -> None:
    file = tmp_path / "strict.toml"
    file.write_text("")
    with pytest.raises(SettingsError, match=r"rates.rate: must be a number"):
        load_settings(Strict, file, prefix="X", environ={"X__RATES__RATE": text})


def test_environment_of_another_prefix_is_ignored(file: Path) -> None:
    assert load(file, MOIETY_EXAMPLES__THREADS="4", MOIETY__THREADS="5").threads == 1


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.toml") == f"{tmp_path}/absent.toml: there is no such file"


def test_folder_instead_of_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_bad_toml_is_named_with_its_place(file: Path) -> None:
    file.write_text("name = north\n")
    assert refusal(file).startswith(f"{file}: not valid TOML: Invalid value (at line 1")


def test_file_that_is_not_text_is_named(file: Path) -> None:
    file.write_bytes(b'name = "north"\nfederation = "M\xfcnchen"\n')
    assert refusal(file) == (
        f"{file}: cannot be read: not UTF-8 text, line 2 has bytes of another encoding; save the file as UTF-8"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_file_in_utf_16_is_said_to_be_that(file: Path, encoding: str) -> None:
    file.write_text("\ufeff" + file.read_text(), encoding=encoding)
    assert refusal(file) == f"{file}: cannot be read: the file is UTF-16 text; save it as UTF-8"


def test_a_byte_order_mark_of_utf_8_is_left_out(file: Path) -> None:
    before = load(file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load(file) == before


def test_each_wrong_field_gets_a_line(file: Path) -> None:
    file.write_text('nam = "north"\nthreads = "many"\n[tls]\nkey = "k"\n')
    lines = refusal(file).splitlines()
    assert [line.removeprefix(f"{file}: ").split(":")[0] for line in lines] == ["name", "threads", "nam"]
    assert "got 'many'" in lines[1]


SECRET = "postgresql://u:hunter2@db.example/ledger"


@pytest.mark.parametrize("variable", ["MOIETY_EXAMPLE__TLS__URI", "MOIETY_EXAMPLE__URI", "MOIETY_EXAMPLE__TLS"])
def test_what_stands_in_a_wrong_place_is_named_and_not_shown(file: Path, variable: str) -> None:
    file.write_text('name = "north"\n' + ("" if variable.endswith("TLS") else '[tls]\nkey = "k"\n'))
    text = refusal(file, **{variable: SECRET})
    assert variable.removeprefix("MOIETY_EXAMPLE__").lower().replace("__", ".") + ": " in text
    assert "hunter2" not in text
    assert "db.example" not in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (SECRET, "got 'postgresql://***@db.example/ledger'"),
        ("postgresql://u:hun@ter2@h/db", "got 'postgresql://***@h/db'"),
        ("postgresql://h/db?user=u&password=hunter2&x=1", "got 'postgresql://h/db?user=u&password=***&x=1'"),
        ("http://north:7000", "got 'http://north:7000'"),
    ],
)
def test_passwords_in_values_are_masked(file: Path, given: str, shown: str) -> None:
    for variable in ("MOIETY_EXAMPLE__LISTEN", "MOIETY_EXAMPLE__THREADS"):
        text = refusal(file, **{variable: given})
        assert shown in text
        assert "ter2" not in text


def test_a_value_that_a_validator_repeats_is_masked_too(tmp_path: Path) -> None:
    class Repeating(Settings):
        url: Annotated[str, AfterValidator(lambda url: repeat(url))]

    def repeat(url: str) -> str:
        raise ValueError(f"{url} cannot be used")

    file = tmp_path / "repeating.toml"
    file.write_text(f'url = "{SECRET}"')
    with pytest.raises(SettingsError) as caught:
        load_settings(Repeating, file, prefix="X", environ={})
    assert "hunter2" not in str(caught.value)


def test_text_in_place_of_a_list_is_not_shown(file: Path) -> None:
    text = refusal(file, MOIETY_EXAMPLE__ALLOWED="hunter2")
    assert "allowed: " in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("north", "the port is missing, as in 127.0.0.1:7101"),
        ("10.0.0.1", "the port is missing"),
        ("http://north:7000", "without a scheme before it"),
        ("north:", "an address is host:port"),
        (":7000", "an address is host:port"),
        ("north:port", "an address is host:port"),
        ("::1:7000", "an IPv6 host stands in brackets"),
        ("north:7000\n", "an address is host:port"),
    ],
)
def test_addresses_need_host_and_port(file: Path, address: str, words: str) -> None:
    text = refusal(file, MOIETY_EXAMPLE__LISTEN=address)
    assert "listen: an address is host:port" in text
    assert words in text


@pytest.mark.parametrize("address", ["north:65536", "127.0.0.1:99999", "[::1]:70000"])
def test_ports_end_at_65535(file: Path, address: str) -> None:
    assert f"listen: a port must not be larger than 65535, got '{address}'" in refusal(
        file, MOIETY_EXAMPLE__LISTEN=address
    )


@pytest.mark.parametrize("address", ["north:7000", "10.0.0.1:1", "[::1]:7000", "north.example.org:65535", "north:0"])
def test_usual_addresses_are_taken(file: Path, address: str) -> None:
    assert load(file, MOIETY_EXAMPLE__LISTEN=address).listen == address


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("north:7000", ("north:7000",)),
        ('["north:7000"]', ("north:7000",)),
        ('["north:7000", "[::1]:7100"]', ("north:7000", "[::1]:7100")),
    ],
)
def test_one_address_or_a_list_of_them_is_taken(file: Path, given: str, taken: tuple[str, ...]) -> None:
    assert load(file, MOIETY_EXAMPLE__HUB=given).hub == taken


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("north", "hub: an address is host:port, and the port is missing, as in 127.0.0.1:7101, got 'north'"),
        ('["north:7000", "south"]', "hub: an address is host:port, and the port is missing"),
        ("[]", 'hub: an address is text, as in "10.0.0.4:7100", or a list of such texts with one at least'),
        ("[7000]", "hub: an address is text"),
        ('{ a = "north:7000" }', "hub: an address is text"),
        ('["north:7000", "north:7000"]', "hub: north:7000 appears twice in the list of addresses"),
    ],
)
def test_a_list_of_addresses_has_distinct_ones_of_host_and_port(file: Path, given: str, words: str) -> None:
    assert words in refusal(file, MOIETY_EXAMPLE__HUB=given)


def test_two_members_have_no_address_in_common() -> None:
    check_addresses({"hub": ("a:1", "b:1"), "bank": "c:1", "shop": "a:0", "clinic": "a:0"})
    with pytest.raises(ValueError, match="'hub' and 'bank' have the same address b:1; each has its own"):
        check_addresses({"hub": ("a:1", "b:1"), "bank": "b:1"})


@pytest.mark.parametrize(
    ("one", "other"), [("h:80", "H:80"), ("h:80", "h:080"), ("[::1]:80", "[0:0::1]:80"), ("[fe80::A]:1", "[FE80::a]:1")]
)
def test_an_address_is_the_same_in_another_spelling(one, other):
    with pytest.raises(ValueError, match="'hub' and 'bank' have the same address"):
        check_addresses({"hub": one, "bank": other})


def test_override_inside_a_plain_field_is_refused(file: Path) -> None:
    assert "MOIETY_EXAMPLE__NAME__X: 'name' is not a section" in refusal(file, MOIETY_EXAMPLE__NAME__X="1")


def test_override_that_is_not_toml_is_refused(file: Path) -> None:
    told = refusal(file, MOIETY_EXAMPLE__ALLOWED="[ada]")
    assert "MOIETY_EXAMPLE__ALLOWED: not valid TOML" in told
    assert "text stands in straight quotation marks" in told


def test_flags_override_the_environment_unless_absent(file: Path) -> None:
    settings = load_settings(
        Example,
        file,
        prefix="MOIETY_EXAMPLE",
        environ={"MOIETY_EXAMPLE__THREADS": "4", "MOIETY_EXAMPLE__LISTEN": "a:1"},
        flags={"threads": 5, "listen": None, "tls.key": "flag.key"},
    )
    assert (settings.threads, settings.listen, settings.tls.key) == (5, "a:1", file.parent / "flag.key")
