"""``soulslab bench``: deprecated; the benchmarks are no longer part of the package."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from soulslab.errors import ConfigError


def bench(*arguments: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> None:
    """Report that the benchmarks are run with ``python -m benchmarks`` now.

    Args:
        arguments: The benchmark and its options, for the message.
    """
    command = " ".join(arguments) or "arena --quick"
    raise ConfigError(
        f"the benchmarks are no longer part of the package; run in a clone of the repository: python -m benchmarks "
        f'{command}, or make bench ARGS="{command}"',
        source="soulslab bench",
    )
