"""Access to the dashboard: what is refused before it listens, its link, and the redirect to a page."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import quote

import httpx
import pytest
from starlette.responses import PlainTextResponse

from soulslab.config import Secret
from soulslab.dashboard import server
from soulslab.dashboard.access import TokenGuard
from soulslab.dashboard.server import DashboardOptions, serve_dashboard
from soulslab.errors import ConfigError

TOKEN = Secret("sesame-open-the-door")
ANY = "0.0.0.0"  # noqa: S104  (refused)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": ANY}, "can be reached from other machines, so TLS is needed"),
        ({"host": "::"}, "can be reached from other machines"),
        ({"host": ANY, "token": Secret("short")}, "at least 16"),
        ({"certificate": "a.pem"}, "TLS needs both"),
        ({"host": ANY, "certificate": "a.pem", "key": "b.pem"}, "a.pem"),
        ({"host": "no.such.host.invalid"}, "can be reached from other machines"),
    ],
)
def test_unsafe_addresses_are_refused(tmp_path, options, message):
    paths = {name: tmp_path / options[name] for name in ("certificate", "key") if name in options}
    wanted = DashboardOptions(root=tmp_path, **{"token": TOKEN, **options, **paths})
    with pytest.raises(ConfigError, match=message):
        serve_dashboard(wanted, lambda _: pytest.fail("it listens"))


def test_used_port_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{port}"):
            serve_dashboard(DashboardOptions(root=tmp_path, port=port), lambda _: pytest.fail("it listens"))


def open_link(link, token):
    """Return the answer of a guarded server to a link, without following its redirect."""
    guard = TokenGuard(PlainTextResponse("a page"), token, 1234, is_secure=False)

    async def get():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard)) as client:
            return await client.get(link)

    with ThreadPoolExecutor(1) as thread:  # the main thread has the event loop of the browser's tests
        return thread.submit(asyncio.run, get()).result()


@pytest.mark.parametrize("token", ["Zm9vYmFy+bazquuxAAA=", "abcdefghij&klmnopqrst", "abcdefghij#%41 klmnopqrst"])
def test_link_has_any_token(tmp_path, monkeypatch, token):
    monkeypatch.setattr(server, "_make_app", lambda *_, **__: None)
    monkeypatch.setattr(server, "_server", lambda *_: SimpleNamespace(run=lambda **_: None))
    links = []
    serve_dashboard(DashboardOptions(root=tmp_path, token=Secret(token)), links.append)
    assert open_link(links[0], token).status_code == 303


@pytest.mark.parametrize("name", ["a b", "lr=1e-4,#2", "50%", "what?", "x%41", "ä"])
def test_token_is_exchanged_on_the_page_of_any_run(name):
    page = f"/run/{quote(name)}"
    found = open_link(f"http://testserver{page}?token={TOKEN.reveal()}&metric=a", TOKEN.reveal())
    assert (found.status_code, found.headers["location"]) == (303, f"{page}?metric=a")


def test_redirect_stays_on_the_host():
    found = open_link(f"http://testserver//other.example/?token={TOKEN.reveal()}", TOKEN.reveal())
    assert found.headers["location"] == "/other.example/"
