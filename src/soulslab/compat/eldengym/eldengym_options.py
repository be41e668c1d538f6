"""Options, keybinds and scenario names of `EldenGymEnv`, as in EldenGym.

A file of keybinds is JSON of version 2::

    {"version": "2.0", "actions": {"attack": {"index": 8, "key": "P", "mouse": "LEFT"}}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from soulslab.config.checking import check, join_place
from soulslab.config.input_files import parse_json, read_text
from soulslab.envs.arguments import check_choice, check_names, parse_options, refuse_unknown_options
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.tasks.duel.duel_options import WindowOptions
from soulslab.envs.tasks.souls.souls_env import SoulsOptions
from soulslab.errors import ConfigError, EnvironmentUsageError, InvalidActionError, UnknownKeyError, did_you_mean
from soulslab.games.boss_facts import boss_names
from soulslab.games.elden_ring import Keybind, load_keybinds
from soulslab.siphon.keys import key_of_public_name

#: Time of a frame at 60 frames per second; EldenGym waits for one frame after it has pressed its keys.
FRAME_MS: Final = 1000 / 60
FramePx: TypeAlias = Annotated[int, Meta(ge=1, le=4096)]

#: Options of `SoulsDuelEnv` with the same meaning here.
PASSED_ON: Final = (
    *(name for name in ConnectOptions.__struct_fields__ if name not in ("server", "read_only")),
    *(name for name in SoulsOptions.__struct_fields__ if name not in ("boss", "launch")),
    *WindowOptions.__struct_fields__,
    *("check_keys", "game_speed", "hard_reset_minutes", "reset_deadline_s", "step_deadline_s"),
)

KeybindSource: TypeAlias = str | Path | Mapping[str, Any] | None
"""Path of a file, content of a file, or None for EldenGym's default keybinds."""
#: Version of the file format.
KEYBIND_VERSION: Final = "2.0"
DEVICES: Final = ("key", "mouse")

GAME: Final = "elden_ring"
#: Ending of the names of scenarios.
_SCENARIO_VERSION: Final = "-v0"

_log = logging.getLogger(__name__)


class EldenGymOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of EldenGym's environment, and some of soulslab. The options of `PASSED_ON` are accepted, too.

    Attributes:
        memory_attributes: See `observed_numbers`.
        actions: See `KeybindActions`.
        host: ``host:port`` of a soulslab server with the game; "" for a game on this machine.
        reward_function: Reward function; None for `ScoreDeltaReward` with the player's health as the score.
        frame_format: Accepted for compatibility, without effect: frames are not compressed.
        frame_quality: Accepted for compatibility, without effect.
        max_steps: Number of steps until truncation; None for no limit.
        launch_game: Whether the game is started, offline and without its anti-cheat. Otherwise it must already run.
        save_file_name: Not supported: a save file cannot be restored while the game has it open.
        save_file_dir: Not supported.
        use_device: See `KeybindActions`.
        frame_px: Width and height of the frame; None for observations without a frame.
        step_ms: Game time of a step.
    """

    memory_attributes: Any = None
    actions: Any = None
    host: str = ""
    reward_function: Any = None
    frame_format: Literal["jpeg", "raw"] = "jpeg"
    frame_quality: int = 85
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    launch_game: bool = False
    save_file_name: str | None = None
    save_file_dir: str | None = None
    use_device: str = "key"
    frame_px: tuple[FramePx, FramePx] | None = (320, 180)
    step_ms: float = FRAME_MS

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is not supported or contradicts another."""
        if self.launch_game and self.host:
            raise EnvironmentUsageError(
                "launch_game starts the game on this machine: give no host with it, and start the game of a server "
                "on the server's machine"
            )
        if self.save_file_name or self.save_file_dir:
            raise EnvironmentUsageError(
                "save_file_name and save_file_dir: a reset restores the fight without a save file; to restore a save "
                "file between two runs of the game, use soulslab.games.save_files.restore"
            )


def split_options(options: Mapping[str, Any]) -> tuple[EldenGymOptions, dict[str, Any]]:
    """Return the checked options of the environment, and the options for `SoulsDuelEnv`."""
    own = EldenGymOptions.__struct_fields__
    refuse_unknown_options("EldenGym's environment", options, (*own, *PASSED_ON))
    own_options = {name: value for name, value in options.items() if name in own}
    given: EldenGymOptions = parse_options("EldenGym's environment", own_options, EldenGymOptions)[0]
    given.check()
    for name in ("token", "token_file", "tls"):
        if options.get(name) and not given.host:
            raise EnvironmentUsageError(f"{name} is for a server; give its address as host='host:port'")
    if "frame_format" in options or "frame_quality" in options:
        _log.info("frame_format and frame_quality have no effect: frames are not compressed")
    return given, {name: value for name, value in options.items() if name in PASSED_ON}


def scenario_names() -> Mapping[str, str]:
    """Return the name of the boss for the name of each scenario: ``margit`` for ``Margit-v0``."""
    return {f"{boss.title().replace('_', '')}{_SCENARIO_VERSION}": boss for boss in boss_names(GAME)}


def boss_of(scenario: str | Path) -> str | Path:
    """Return the boss of a scenario: its name, or the path of a fact file unchanged.

    ``Margit-v0``, ``Margit`` and ``margit`` name the same scenario, as in EldenGym's documentation. An unknown scenario
    raises `EnvironmentUsageError`.
    """
    if str(scenario).endswith(".toml"):
        return Path(scenario)
    known = scenario_names()
    by_name: dict[str, str] = {**known} | {name.removesuffix(_SCENARIO_VERSION): boss for name, boss in known.items()}
    by_name |= {boss: boss for boss in known.values()}
    if not isinstance(scenario, str) or scenario not in by_name:
        raise EnvironmentUsageError(f"unknown scenario {scenario!r}{did_you_mean(str(scenario), known)}")
    return by_name[scenario]


class _KeybindFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of a file of keybinds."""

    version: str
    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]
    description: str = ""


class KeybindActions:
    """Converts EldenGym's actions into keys.

    Args:
        source: The keybinds.
        actions: Names of the actions, in the order of the bits; None for all, in the order of their indices.
        device: One of `DEVICES`; with ``"mouse"``, an action with a mouse button uses it instead of its key.
    """

    def __init__(self, source: KeybindSource = None, actions: Sequence[str] | None = None, device: str = "key") -> None:
        check_choice("use_device: unknown kind", device, DEVICES)
        binds, source_name = read_keybinds(source)
        chosen = binds
        if actions is not None:
            check_names("actions", actions, binds, "action")
            chosen = {name: binds[name] for name in actions}
            if len(chosen) < len(actions):
                raise EnvironmentUsageError(f"actions: each name only once, not {list(actions)}")
        self.names = tuple(chosen)
        self.keys = tuple(_find_key(name, bind, device, source_name) for name, bind in chosen.items())

    def held(self, action: Any) -> tuple[str, ...]:
        """Return the keys that (A,) bits hold, without duplicates. Raises `InvalidActionError`."""
        try:
            bits = np.asarray(action)
        except ValueError:  # a ragged list
            bits = np.zeros(0, object)
        if bits.shape != (len(self.names),) or bits.dtype.kind not in "biuf" or not ((bits == 0) | (bits == 1)).all():
            raise InvalidActionError(
                f"action {action!r}: must be {len(self.names)} bits of 0 and 1, one for each of {', '.join(self.names)}"
            )
        # Two actions can have the same key.
        return tuple(dict.fromkeys(key for key, bit in zip(self.keys, bits.tolist(), strict=True) if bit))


def read_keybinds(source: KeybindSource = None) -> tuple[dict[str, Keybind], str]:
    """Return the actions in the order of their indices, and the name of their source. Raises `ConfigError`."""
    if source is None:
        return dict(load_keybinds()), "keybinds.toml"
    if not isinstance(source, str | Path | Mapping):
        raise EnvironmentUsageError(f"keybinds_filepath must be a path or a table, not {source!r}")
    name = "keybinds" if isinstance(source, Mapping) else str(source)
    if isinstance(source, Mapping):
        data: Any = dict(source)
    else:
        fail = partial(ConfigError, source=source)
        data = parse_json(read_text(Path(source), fail), object, fail)
        if not isinstance(data, dict):
            raise fail(f"must be a table of actions, not {type(data).__name__}")

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=name)

    if data.get("version") != KEYBIND_VERSION:
        problem = f"must be {KEYBIND_VERSION!r}, the format with a table of actions, not {data.get('version')!r}"
        raise error(problem, "version")
    actions = sorted(check(data, _KeybindFile, error).actions.items(), key=lambda item: item[1].index)
    for (one, bind), (other, next_bind) in pairwise(actions):
        if bind.index == next_bind.index:
            raise error(f"{one!r} has the same index", f"{join_place('actions', other)}.index")
    return dict(actions), name


def _find_key(name: str, bind: Keybind, device: str, source: str) -> str:
    field = "mouse" if device == "mouse" and bind.mouse else "key"
    try:
        return key_of_public_name(getattr(bind, field)).name
    except UnknownKeyError as error:
        raise ConfigError(str(error), path=f"{join_place('actions', name)}.{field}", source=source) from error
