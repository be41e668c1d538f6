"""``soulslab doctor``, ``soulslab envs`` and the deprecated ``soulslab bench``."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from soulslab.cli.output import EXIT_FAILED, EXIT_OK, table_console
from soulslab.cli.parameters import Flag
from soulslab.errors import ConfigError


def envs() -> None:
    """List the environments."""
    from soulslab.envs.registration import DESCRIPTIONS

    width = max(map(len, DESCRIPTIONS))
    sys.stdout.write("".join(f"{name:{width}}  {text}\n" for name, text in sorted(DESCRIPTIONS.items())))


def doctor(*, dev: Flag = False) -> int:
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


def bench(*arguments: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> None:
    """Print how the benchmarks are run: with python -m benchmarks, in a clone of the repository.

    Args:
        arguments: The benchmark and its options, for the message.
    """
    command = " ".join(arguments) or "arena --quick"
    raise ConfigError(
        f"the benchmarks are no longer part of the package; run in a clone of the repository: python -m benchmarks "
        f'{command}, or make bench ARGS="{command}"',
        source="soulslab bench",
    )
