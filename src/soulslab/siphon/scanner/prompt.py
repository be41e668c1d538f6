"""The scan prompt: a person or a script finds a value line by line.

::

    > = 100                    the health is 100
    37114 places, type i32
    > = 93                     it was hit
    2 places, type i32
    > path 1
    > restart
    > verify 100
    > save health range=0..200 unit=hp
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator

from rich.table import Table

from soulslab.errors import ConfigError, ProfileError, SoulslabError, did_you_mean
from soulslab.siphon.scanner.env_command import ENVS
from soulslab.siphon.scanner.path_commands import PATHS
from soulslab.siphon.scanner.phrases import HELP
from soulslab.siphon.scanner.tick_command import TICKS
from soulslab.siphon.scanner.value_commands import FIND, PLAY, Command, look
from soulslab.siphon.scanner.workbench import Workbench

COMMANDS = {command.name: command for command in (*FIND, *PATHS, *TICKS, *PLAY, *ENVS)}
OTHERS = {"help": "show this", "quit": "end; a game that was started here ends, too"}
PROMPT = "> "


def run_prompt(bench: Workbench, lines: Iterable[str], *, is_interactive: bool) -> None:
    """Execute lines until the input ends or a line is ``quit``.

    Args:
        bench: State of the scan.
        lines: Typed lines.
        is_interactive: Whether to print an error and continue with the next line; otherwise the first error ends the
            prompt.

    Raises:
        SoulslabError: A line of a script failed.
    """
    for number, line in enumerate(lines, 1):
        if not is_interactive:
            bench.say(f"{PROMPT}{line.rstrip()}", style="dim")
        text = line.strip()
        if text in ("quit", "exit", "q"):
            return
        try:
            if text and not text.startswith("#"):
                do_line(bench, text)
        except SoulslabError as error:
            if not is_interactive:
                if isinstance(error, ConfigError) and not isinstance(error, ProfileError):
                    raise ConfigError(str(error), source=f"line {number}") from error
                raise
            bench.say(str(error), style="red")
        except KeyboardInterrupt:
            if not is_interactive:
                raise
            bench.say("interrupted; the candidates are those of before")


def do_line(bench: Workbench, line: str) -> None:
    """Execute a line.

    Raises:
        SoulslabError: The line failed.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"cannot be split into words: {error}", source=line) from error
    name = words[0].lower() if words else ""
    if name in ("help", "h"):
        bench.console.print(_help())
        return
    command = COMMANDS.get(name)
    if command is None:
        if not look(bench, line):
            raise ConfigError(f"unknown command{did_you_mean(name, [*COMMANDS, *OTHERS])}", source=words[0])
        return
    least, most = command.n_arguments
    if not least <= len(words) - 1 <= most:
        raise ConfigError(f"is not complete, or says too much; it is: {command.usage}", source=line)
    command.do(bench, words[1:])


def typed_lines() -> Iterator[str]:
    """Yield typed lines, with a history on the arrow keys; Ctrl-D ends them."""
    try:
        import readline  # noqa: F401, PLC0415  (input() takes its keys from then on)
    except ImportError:
        sys.stderr.write("no history of lines: this Python has no readline\n")
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")  # as in a shell: the line is dropped, Ctrl-D ends


def ask(question: str) -> str:
    """Ask for a line."""
    try:
        return input(question)
    except EOFError as error:
        raise ConfigError("has no answer", source=question) from error


def _help() -> Table:
    """Return the table of all commands."""
    table = Table(box=None, show_header=False, pad_edge=False)
    sections: tuple[tuple[str, Iterable[tuple[str, str]]], ...] = (
        ("say what the value is, line by line, until few places are left", HELP),
        ("candidates", _rows(FIND)),
        ("pointer paths to it that hold in every run", _rows(PATHS)),
        ("the clock", _rows(TICKS)),
        ("play", _rows(PLAY)),
        ("the environment", _rows(ENVS)),
        ("", OTHERS.items()),
    )
    for title, rows in sections:
        if title:
            table.add_row(f"[bold]{title}[/bold]")
        for usage, what in rows:
            table.add_row(f"  {usage}".replace("[", r"\["), what.replace("[", r"\["))
    return table


def _rows(commands: Iterable[Command]) -> list[tuple[str, str]]:
    return [(command.usage, command.what) for command in commands]
