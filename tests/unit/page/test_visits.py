import pytest
from starlette.requests import Request
from starlette.responses import Response

from page import visits
from page.visits import MAX_FORM_BYTES, MAX_VISITS, Visit, Visits, check_origin, checked_form, read_form
from service.errors import NotAllowedError

OWN = {"host": "127.0.0.1:7180", "origin": "http://127.0.0.1:7180"}


def request(body: bytes = b"", **headers: str) -> Request:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "scheme": "http",
        "path": "/",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }
    return Request(scope, receive)


def begun(page: Visits) -> str:
    response = Response()
    page.begin(response)
    return response.headers["set-cookie"]


def test_a_cookie_belongs_to_its_visit_until_it_ends(monkeypatch):
    page = Visits("name", is_secure=True)
    shown = begun(page)
    cookie = shown.partition(";")[0]
    assert {"HttpOnly", "SameSite=strict", "Secure"} <= set(shown.split("; "))
    visit = page.of(request(cookie=cookie))
    assert visit.is_owner
    assert visit.csrf not in repr(visit)
    assert page.of(request(cookie="name=guess")) is None
    assert page.of(request()) is None
    monkeypatch.setattr(visits.time, "monotonic", lambda: visit.until_s)
    assert page.of(request(cookie=cookie)) is None


def test_a_visit_that_was_ended_or_had_to_make_room_is_gone():
    page = Visits("name", is_secure=False)
    cookies = [begun(page).partition(";")[0] for _ in range(MAX_VISITS + 1)]
    assert page.of(request(cookie=cookies[0])) is None
    assert page.of(request(cookie=cookies[1])) is not None
    page.end(request(cookie=cookies[1]), Response())
    assert page.of(request(cookie=cookies[1])) is None


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:7181", "https://127.0.0.1:7180", "http://evil.example", "null", ""]
)
def test_a_form_of_another_origin_is_refused(origin):
    check_origin(request(**OWN))
    with pytest.raises(NotAllowedError, match="does not come from this page"):
        check_origin(request(**OWN | {"origin": origin}))


async def test_forms_are_read_up_to_a_size():
    assert await read_form(request(b"a=1&b=x%20y&a=2")) == {"a": "1", "b": "x y"}
    for body in (b"a" * (MAX_FORM_BYTES + 1), b"\xff", b"&".join(b"a=1" for _ in range(20))):
        with pytest.raises(NotAllowedError):
            await read_form(request(body))


async def test_an_owners_form_needs_the_random_text_of_the_visit():
    visit = Visit(is_owner=True)
    good = f"csrf={visit.csrf}&x=1".encode()
    assert (await checked_form(request(good, **OWN), visit))["x"] == "1"
    for body, who, headers in (
        (good, Visit(is_owner=True), OWN),
        (b"x=1", visit, OWN),
        (good, Visit(is_owner=False), OWN),
        (good, visit, OWN | {"origin": "http://evil.example"}),
    ):
        with pytest.raises(NotAllowedError):
            await checked_form(request(body, **headers), who)
