"""``soulslab dashboard``: the web page of the runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soulslab.cli.output import EXIT_OK, print_line
from soulslab.cli.parameters import Flag, option_group
from soulslab.errors import ConfigError, optional_imports

if TYPE_CHECKING:
    from soulslab.config import Secret

TOKEN_NAME: Final = "dashboard.token"  # noqa: S105  (the name of a file)
"""File with the token of the dashboards of a user, in the folder for the state of programs."""

_log = logging.getLogger(__name__)


@option_group
class DashboardFlags:
    """Address and access.

    Attributes:
        listen: Address and port; port 0 chooses a free one. An address that other machines can reach needs TLS.
        token_file: File with the token of the link, created if it does not exist; by default, a file of this user, so
            that the link stays the same.
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
    from soulslab.dashboard.server import DashboardOptions, serve_dashboard

    _check_root(runs)
    host, port = _address(flags.listen)
    options = DashboardOptions(
        root=runs,
        host=host,
        port=port,
        token=_token(flags.token_file),
        certificate=flags.certificate,
        key=flags.key,
        is_read_only=flags.read_only,
    )
    serve_dashboard(options, lambda link: print_line(f"the dashboard is at {link}"))
    return EXIT_OK


def _check_root(runs: Path) -> None:
    """Raise ConfigError if the folder with the runs exists, but cannot be read; it may be made later."""
    try:
        os.scandir(runs).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror or error}; give the folder of a run, or one that contains runs",
            source=runs,
        ) from error


def _token(file: Path | None) -> Secret:
    """Return the token in a file; by default, that of this user, or none if its file cannot be used."""
    from soulslab.config import Secret
    from soulslab.siphon.rpc.access import read_or_make_token

    if file is not None:
        return read_or_make_token(file)
    try:
        return read_or_make_token(_state_folder() / TOKEN_NAME)
    except (ConfigError, RuntimeError) as error:  # RuntimeError: this user has no home folder
        _log.warning("%s; the link is only valid until the dashboard ends", error)
        return Secret("")


def _state_folder() -> Path:
    """Return the folder for the state of soulslab of this user; it may not exist yet."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "soulslab"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "soulslab"


def _address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[HOST]:PORT``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"is not of the form HOST:PORT, as 127.0.0.1:8130, but {text!r}", source="--listen")
    return host.strip("[]"), int(port)
