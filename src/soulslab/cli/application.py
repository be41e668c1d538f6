"""The application of the command line: its commands, logging and errors.

Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, 130 interrupted.

Each command imports what it needs when it runs, so that ``soulslab --help`` is fast.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Parameter

from soulslab.cli.arena import arena
from soulslab.cli.boss import boss
from soulslab.cli.dashboard import dashboard
from soulslab.cli.doctor import bench, doctor, envs
from soulslab.cli.evaluate import evaluate
from soulslab.cli.fights import fights
from soulslab.cli.fleet import fleet
from soulslab.cli.games import games
from soulslab.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from soulslab.cli.policies import film, join, play, remove_tokens
from soulslab.cli.siphon import siphon
from soulslab.cli.siphon_control import hold, move, shell, stream, tap, toggle
from soulslab.cli.siphon_install import install, uninstall
from soulslab.cli.siphon_serve import serve
from soulslab.cli.siphon_verify import compare, verify
from soulslab.cli.train import demo, train, tune
from soulslab.errors import ConfigError, EnvironmentUsageError, SoulslabError, missing_dependency
from soulslab.version import VERSION

TRACEBACK_VERBOSITY: Final = 2
HELP_FLAGS: Final = frozenset({"--help", "-h", "--version"})
WITHOUT_ENVIRONMENTS: Final = frozenset({"arena"})
"""Commands that need no environment, and start faster without Gymnasium."""

app = App(
    name="soulslab",
    help="Reinforcement learning on Souls games, with a built-in boss fight.",
    version=VERSION,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # _run_command handles it
)
for _siphon_command in (tap, hold, toggle, move, stream, shell, serve, verify, compare, install, uninstall):
    siphon.command(_siphon_command)
app.command(bench, show=False)  # deprecated
for _command in (envs, doctor, train, evaluate, demo, play, arena, tune, join, remove_tokens, film, dashboard):
    app.command(_command)
for _group in (siphon, fights, boss, games, fleet):
    app.command(_group)


def main() -> None:
    """Run the command of this process and exit with its exit code, or with 1 if its output cannot be written."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as with >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    # For a pipe or a file, Windows uses an encoding that lacks most letters; names of files may contain them.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:])
    except OSError as error:
        # Without a buffer (PYTHONUNBUFFERED), the text that failed is not kept for another attempt.
        is_unbuffered = isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase)
        if _flush_output() and not (is_unbuffered and isinstance(error, BrokenPipeError)):
            raise
        code = EXIT_FAILED
    sys.exit(code if _flush_output() else EXIT_FAILED)


def _flush_output() -> bool:
    """Write the rest of standard output; if that fails, discard it and return False.

    A pipe whose reader has ended, such as ``head``, is not reported. On Windows its error is EINVAL.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EINVAL):
            sys.stderr.write(f"soulslab: standard output: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def run(arguments: Sequence[str]) -> int:
    """Run the command of a command line without the name of the program, and return its exit code."""
    try:
        return app.meta(arguments, exit_on_error=False, result_action="return_value") or EXIT_OK
    except CycloptsError:  # cyclopts has printed it
        return EXIT_USAGE


@app.meta.default
def _run_command(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    verbose: Annotated[int, Parameter(name=["-v", "--verbose"], count=True, show_default=False)] = 0,
) -> int:
    """Run a command with logging and error handling.

    Args:
        verbose: Log more; -vv logs everything and shows tracebacks.
    """
    return run_app(app, tokens, verbose=verbose)


def gymnasium_error(name: str = "Error") -> type[Exception]:
    """Return an exception of Gymnasium, which is imported here because some commands do without it."""
    from gymnasium import error

    found: type[Exception] = getattr(error, name)
    return found


def run_app(application: App, tokens: Sequence[str], *, verbose: int = 0) -> int:
    """Run a command of an application with logging and error handling, and return its exit code.

    `verbose` is 0 for warnings and progress, 1 for more, 2 for everything, with tracebacks. Raises `CycloptsError` if
    the command line is wrong; cyclopts has printed why.
    """
    # The arguments after -- are the command line of a game and may contain flags of the game.
    if not HELP_FLAGS.isdisjoint(tokens[: tokens.index("--")] if "--" in tokens else tokens):
        return application(tokens, exit_on_error=False, result_action="return_value") or EXIT_OK
    try:
        from soulslab.log import configure

        if not set(tokens[:1]) & WITHOUT_ENVIRONMENTS:
            from soulslab.envs.registration import register_all

            register_all()
        configure(verbose)
        return application(tokens, exit_on_error=False, result_action="return_value") or EXIT_OK
    except KeyboardInterrupt:
        sys.stderr.write(f"{application.name[0]}: interrupted\n")
        return EXIT_INTERRUPTED
    # This clause is evaluated after an error only, so an interrupt during slow imports needs no gymnasium.
    except (SoulslabError, gymnasium_error(), ModuleNotFoundError) as error:
        missing = missing_dependency(error) if isinstance(error, ModuleNotFoundError) else None
        if verbose >= TRACEBACK_VERBOSITY or (isinstance(error, ModuleNotFoundError) and missing is None):
            raise
        sys.stderr.write(f"{application.name[0]}: {missing or error}\n")
        is_usage = isinstance(error, (ConfigError, EnvironmentUsageError, gymnasium_error("UnregisteredEnv")))
        return EXIT_USAGE if is_usage else EXIT_FAILED
    except OSError as error:  # such as a folder that is not readable, or a name that is too long
        if verbose >= TRACEBACK_VERBOSITY or error.filename is None:
            raise
        sys.stderr.write(f"{application.name[0]}: {error.filename}: {error.strerror or error}\n")
        return EXIT_FAILED
