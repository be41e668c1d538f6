"""The endpoint for Prometheus as other machines see it: certificate, token, and who is turned away."""

import shlex
import socket
import ssl
import subprocess
from urllib.error import HTTPError

import pytest

from soulslab.errors import ConfigError
from soulslab.learn.sinks import PrometheusSink, RemoteAccess
from support.messages import PROGRESS
from support.scrapes import families, fetch
from support.waiting import PATIENCE_S

TOKEN = "sesame-open-the-door"  # noqa: S105  (made up)
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A certificate for this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=soulslab"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*shlex.split(words), *names], check=True, capture_output=True)
    return {"certificate": certificate, "key": key}


@pytest.fixture
def sink(files):
    sink = PrometheusSink(0, "0.0.0.0", access=RemoteAccess(token=TOKEN, **files))  # noqa: S104
    sink.write(PROGRESS)
    yield sink
    sink.close()


def context(files):
    return ssl.create_default_context(cafile=files["certificate"])


def test_with_certificate_and_token_the_numbers_are_told(sink, files):
    assert sink.url == f"https://0.0.0.0:{sink.port}/metrics"
    found = families(f"https://127.0.0.1:{sink.port}/metrics", headers=BEARER, context=context(files))
    assert found["soulslab_train_fights"].samples[0].value == 2000


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({}, "missing"),
        ({"Authorization": f"Bearer {TOKEN}x"}, "wrong"),
        ({"Authorization": TOKEN}, "wrong"),
        ({"Authorization": "Basic c2VzYW1l"}, "wrong"),
        ({"Authorization": "Bearer sésame"}, "wrong"),
    ],
)
def test_without_the_token_nothing_is_told(sink, files, headers, what):
    with pytest.raises(HTTPError, match="401") as refusal:
        fetch(f"https://127.0.0.1:{sink.port}/metrics", headers, context(files))
    said = refusal.value.read().decode()
    assert said == f"the token is {what}; send Authorization: Bearer TOKEN\n"


def test_a_client_without_tls_or_trust_learns_nothing(sink, capfd):
    with pytest.raises(OSError, match=r"reset|closed|disconnected|HTTP"):
        fetch(f"http://127.0.0.1:{sink.port}/metrics", BEARER)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(f"https://127.0.0.1:{sink.port}/metrics", BEARER, ssl.create_default_context())
    assert capfd.readouterr() == ("", "")


def test_a_silent_client_delays_no_other(sink, files, monkeypatch):
    """The handshake is not done by the thread that accepts connections."""
    monkeypatch.setattr("soulslab.learn.sinks.prometheus_sink._Handler.timeout", 2 * PATIENCE_S)
    silent = [socket.create_connection(("127.0.0.1", sink.port)) for _ in range(3)]
    assert families(f"https://127.0.0.1:{sink.port}/metrics", headers=BEARER, context=context(files))
    sink.close()
    for one in silent:
        one.close()


def test_key_and_certificate_have_to_belong_together(files, tmp_path):
    other = tmp_path / "other.pem"
    words = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out"
    subprocess.run([*shlex.split(words), str(other)], check=True, capture_output=True)
    with pytest.raises(ConfigError, match=r"cannot be used: .*give two PEM files that match"):
        PrometheusSink(0, access=RemoteAccess(token=TOKEN, certificate=files["certificate"], key=other))
