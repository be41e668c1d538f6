"""The certificate of the Redis server that a learner starts, signed by an authority of this fleet alone."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from pathlib import Path
from typing import Final

from soulslab.errors import FleetError
from soulslab.fleet.redis_server import Certificates
from soulslab.learn.archive import writing

_DAYS: Final = "3650"
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DEADLINE_S: Final = 60.0


def server_certificates(folder: Path, host: str) -> Certificates:
    """Return the certificates of a server at a host; the first call for a host makes them with openssl.

    The key of the authority is deleted at once, so no other certificate can be signed that the games trust.
    Raises FleetError without openssl.
    """
    found = Certificates(folder / "server.pem", folder / "server.key", folder / "ca.pem")
    made_for = folder / "host"
    if made_for.exists() and made_for.read_text() == host:
        return found
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made_for.unlink(missing_ok=True)
        (folder / "names").write_text(f"subjectAltName={_alternative_name(host)}\nextendedKeyUsage=serverAuth\n")
    ca_key, request = folder / "ca.key", folder / "server.csr"
    authority = ("-subj", "/CN=soulslab fleet", "-days", _DAYS, "-addext", "keyUsage=critical,keyCertSign")
    _openssl("req", "-x509", *_NEW_KEY, *authority, "-keyout", ca_key, "-out", found.ca)
    _openssl("req", "-new", *_NEW_KEY, "-subj", "/CN=soulslab learner", "-keyout", found.key, "-out", request)
    signing = ("-CA", found.ca, "-CAkey", ca_key, "-days", _DAYS, "-extfile", folder / "names")
    _openssl("x509", "-req", "-in", request, *signing, "-out", found.certificate)
    with writing(folder):
        ca_key.unlink()
        made_for.write_text(host)
    return found


def _alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def _openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise FleetError("openssl", "is not installed, but TLS needs it; install it (Debian: apt install openssl)")
    done = subprocess.run(  # noqa: S603 - the program that `which` found, our own arguments
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    if done.returncode:
        raise FleetError("openssl", f"could not make a certificate: {done.stderr.strip()[-500:]}")
