"""``soulslab doctor`` and ``soulslab envs``."""

# ruff: noqa: PLC0415  (imports in commands keep `soulslab --help` fast)

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from soulslab.cli.output import EXIT_FAILED, EXIT_OK, table_console


def envs() -> None:
    """List the environments."""
    from soulslab.envs.registration import DESCRIPTIONS

    width = max(map(len, DESCRIPTIONS))
    sys.stdout.write("".join(f"{name:{width}}  {text}\n" for name, text in sorted(DESCRIPTIONS.items())))


def doctor(*, dev: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show what works on this machine, and how to install the rest.

    The exit code is 0 if only optional parts are missing.

    Args:
        dev: Also check what the tests and the development of soulslab need.
    """
    from soulslab.doctor import State, examine, lines, table

    checks = examine(is_dev=dev)
    if sys.stdout.isatty():
        table_console().print(table(checks))
    else:
        sys.stdout.write(lines(checks))
    return EXIT_FAILED if any(check.state is State.MISSING for check in checks) else EXIT_OK
