"""``soulslab dashboard``: the web page of the runs."""

from __future__ import annotations

from pathlib import Path

from soulslab.cli.output import EXIT_OK, print_line
from soulslab.cli.parameters import Flag, option_group
from soulslab.errors import ConfigError, optional_imports


@option_group
class DashboardFlags:
    """Address and access.

    Attributes:
        listen: Address and port; port 0 chooses a free one. An address that other machines can reach needs TLS.
        token_file: File with the token of the link; by default a random token is used until the dashboard ends.
        certificate: PEM file with a certificate, for TLS.
        key: PEM file with the key of the certificate.
        read_only: Leave out all controls of the runs.
    """

    listen: str = "127.0.0.1:8130"
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    read_only: Flag = False


def dashboard(runs: Path = Path("runs"), *, flags: DashboardFlags = DashboardFlags()) -> int:
    """Show training runs in a browser, live and afterwards.

    Args:
        runs: Folder with runs, or the folder of one run.
    """
    with optional_imports():
        import nicegui  # noqa: F401
    from soulslab.config import Secret
    from soulslab.dashboard.server import DashboardOptions, serve_dashboard
    from soulslab.siphon.rpc.access import read_token

    host, port = _address(flags.listen)
    options = DashboardOptions(
        root=runs,
        host=host,
        port=port,
        token=read_token(flags.token_file) if flags.token_file else Secret(""),
        certificate=flags.certificate,
        key=flags.key,
        is_read_only=flags.read_only,
    )
    serve_dashboard(options, lambda link: print_line(f"the dashboard is at {link}"))
    return EXIT_OK


def _address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[HOST]:PORT``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"is not of the form HOST:PORT, as 127.0.0.1:8130, but {text!r}", source="--listen")
    return host.strip("[]"), int(port)
