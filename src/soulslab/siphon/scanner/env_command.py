"""The ``env`` command of the scan prompt: write the start of an episode and the actions of an environment."""

from __future__ import annotations

from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AoT

from soulslab.errors import ScanError
from soulslab.siphon.keys import key_named
from soulslab.siphon.scanner.entry import edit_profile, set_values
from soulslab.siphon.scanner.value_commands import Command
from soulslab.siphon.scanner.workbench import KeyInput, Workbench

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
    """Return the names of keys in ``[keys]``; keys without a name are added.

    Raises:
        InputError: The key does not exist.
    """
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
    """Return the steps of a reset that restarts the game and repeats the inputs."""
    steps = tomlkit.aot()
    steps.append(tomlkit.item({"restart": True}))
    for entry in inputs:
        keys = [names[key] for key in entry.keys]
        steps.append(tomlkit.item({"tap" if entry.is_tap else "hold": keys, "s": entry.seconds}))
    return steps


ENVS = (
    Command(
        "env [KEY ...]",
        "write [env]: keys to play with, and the inputs since the last restart as the start of an episode",
        (0, 50),
        _env,
    ),
)
