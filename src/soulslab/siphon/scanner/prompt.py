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

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import tomlkit
from rich.markup import escape
from rich.table import Table
from tomlkit import TOMLDocument
from tomlkit.items import AoT

from soulslab.errors import ConfigError, ProfileError, ScanError, SoulslabError, did_you_mean
from soulslab.siphon.command_words import split_words
from soulslab.siphon.keys import key_named
from soulslab.siphon.scanner.conditions import HELP
from soulslab.siphon.scanner.entry import edit_profile, set_values
from soulslab.siphon.scanner.path_commands import PATHS
from soulslab.siphon.scanner.tick_command import TICKS
from soulslab.siphon.scanner.workbench import FIND, PLAY, Command, KeyInput, Workbench, look

#: Length of a step if the profile names no tick.
STEP_S = 0.1
#: Maximum length of an episode in steps; without a limit training might never finish an episode.
MAX_STEPS = 2000


def _env(bench: Workbench, words: list[str]) -> None:
    """Write ``[keys]``, ``[env]`` and, from the inputs since the start of the game, ``[[env.reset]]``."""
    if not bench.game.is_child:
        raise ScanError("env needs a game that scan has started: an episode begins with a restart of the game")
    with edit_profile(bench.file, bench.game.profile) as document:
        names = _name_keys(document, [*words, *(key for entry in bench.inputs for key in entry.keys)])
        set_values(document, "env", _env_values(document, [names[word] for word in words]))
        document["env"]["reset"] = _reset_steps(bench.inputs, names)
    n_waits = sum(entry.seconds for entry in bench.inputs if not entry.keys)
    bench.say(
        f"{bench.file}: {len(words)} actions, a reset of {len(bench.inputs)} inputs with {n_waits:g} s of waits",
        style="bold",
    )
    if not bench.is_exact_start:
        bench.say(
            "the time of the game ran between the inputs; for the same start in each episode type pause, restart, "
            "the inputs with waits between them, and env again",
            style="yellow",
        )


def _name_keys(document: TOMLDocument, keys: list[str]) -> dict[str, str]:
    """Return the names of keys in ``[keys]``; keys without a name are added. Raises `InputError` for an unknown key."""
    known = dict(document.get("keys", {}))
    names = {str(physical): str(name) for name, physical in known.items()} | {name: name for name in known}
    for key in keys:
        if key not in names:
            key_named(key)
            names[key] = key.lower()
            set_values(document, "keys", {key.lower(): key})
    return names


def _env_values(document: TOMLDocument, actions: list[str]) -> dict[str, Any]:
    """Return the missing values of ``[env]``, and the actions if keys are given."""
    env = document.get("env", {})
    values: dict[str, Any] = {}
    if "step_ticks" not in env and "step_s" not in env:
        values = {"step_ticks": 1} if "tick_hz" in document.get("clock", {}) else {"step_s": STEP_S}
    if "state" not in env:
        attributes = [str(name) for name, table in document.get("attributes", {}).items()]
        values |= {"state": attributes} if attributes else {"observation": "pixels"}
    if "max_steps" not in env and "end" not in env:
        values["max_steps"] = MAX_STEPS
    if actions:
        values["actions"] = {name: [name] for name in actions}
    elif "actions" not in env:
        raise ScanError("[env] has no actions yet; name the keys to play with: env LEFT_ARROW RIGHT_ARROW SPACE")
    return values


def _reset_steps(inputs: list[KeyInput], names: dict[str, str]) -> AoT:
    steps = tomlkit.aot()
    steps.append(tomlkit.item({"restart": True}))
    for entry in inputs:
        keys = [names[key] for key in entry.keys]
        steps.append(tomlkit.item({"tap" if entry.is_tap else "hold": keys, "s": entry.seconds}))
    return steps


_ENV_HELP = "write [env]: keys to play with, and the inputs since the last restart as the start of an episode"
ENVS = (Command("env [KEY ...]", _ENV_HELP, (0, 50), _env),)
SECTIONS = {
    "candidates": FIND,
    "pointer paths to it that hold in every run": PATHS,
    "the clock": TICKS,
    "play": PLAY,
    "the environment": ENVS,
}
COMMANDS = {command.name: command for commands in SECTIONS.values() for command in commands}
OTHERS = {"help": "show this", "quit": "end; a game that was started here ends, too"}
PROMPT = "> "


def run_prompt(bench: Workbench, lines: Iterable[str], *, is_interactive: bool) -> None:
    """Execute lines until the input ends or a line is ``quit``.

    In an interactive prompt an error is printed and the next line is read; otherwise the first error is raised.
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
    """Execute a line. Raises `SoulslabError`."""
    words = split_words(line)
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
    table = Table(box=None, show_header=False, pad_edge=False)
    sections = {title: [(one.usage, one.what) for one in commands] for title, commands in SECTIONS.items()}
    for title, rows in {"say what the value is, line by line, until few places are left": HELP, **sections}.items():
        table.add_row(f"[bold]{title}[/bold]")
        for usage, what in rows:
            table.add_row(f"  {escape(usage)}", escape(what))
    for name, what in OTHERS.items():
        table.add_row(f"  {name}", what)
    return table
