"""Instructions printed for the operator of a server."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from soulslab.config import Secret
from soulslab.siphon.rpc.foreground_server import _how_to_connect
from soulslab.siphon.rpc.server import ServerOptions
from soulslab.testing.fake_session import FakeSession


def said(address, *, token="secret", token_file=None, certificate=None, is_public=False):  # noqa: S107  (made up)
    options = ServerOptions(tls_certificate=certificate, extra_handlers=(lambda _: ()) if is_public else None)
    server = SimpleNamespace(address=address, token=Secret(token))
    with FakeSession() as session:
        return "\n".join(_how_to_connect(session, server, options, token_file))


def test_a_local_server_explains_the_access_of_clients():
    lines = said("127.0.0.1:7", token_file=Path("a b.token"), is_public=True)
    assert "watch 127.0.0.1:7 --token-file 'a b.token'" in lines
    assert 'connect("127.0.0.1:7", token=...)' in lines
    assert "pysiphon --host 127.0.0.1:7 status" in lines
    assert "secret" not in lines
    assert "token: secret" in said("127.0.0.1:7")
    assert "token" not in said("127.0.0.1:7", token="")


@pytest.mark.parametrize("address", ["0.0.0.0:7", "[::]:7"])
def test_a_server_of_all_addresses_prints_none_of_them(address):
    lines = said(address, certificate=Path("certificate.pem"), is_public=True)
    assert "watch HOST:7 --token-file FILE --certificate certificate.pem" in lines
    assert 'connect("HOST:7", token=..., tls="certificate.pem")' in lines
    assert "pysiphon" not in lines  # it knows neither tokens nor TLS
