"""Access to the dashboard: what is refused before it listens."""

import socket

import pytest

from soulslab.config import Secret
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
