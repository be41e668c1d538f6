"""``soulslab arena``: play the built-in fight in a window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.parameters import Flag, Repeated, option_group
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from soulslab.arena.live_fight import LiveFight
    from soulslab.arena.window.key_log import Replay
    from soulslab.arena.window.settings import WindowSettings
    from soulslab.siphon.profile import Profile

_RECORDINGS = (".h5", ".hdf5")
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")


@option_group
class ArenaFlags:
    """The fight, its window, the keys, and key logs.

    Attributes:
        boss: A shipped boss, generated:SEED, or the path of a boss file.
        phase: 1, 2 or full.
        seed: Seed of the first fight.
        poses: Start position of the player: fixed, or random in each fight.
        size: Width and height of the window in pixels.
        renderer: gpu uses OpenGL, software does not; auto uses OpenGL if the hardware supports it.
        fullscreen: Start in full screen; F11 switches.
        speed: Speed of game time: 0.5 is half speed.
        buttons: Show which buttons are pressed.
        no_help: Do not show the keys at the start; F1 shows them.
        keys: TOML file with the key of each action, as roll = "LEFT_SHIFT".
        key: Key of one action, as roll=LEFT_SHIFT; may be repeated.
        mask: A shipped game or a profile: use the memory layout, names and keys of that game.
        log: Write the keys of each tick to this file.
        replay: Replay a key log, or a recording of this game (soulslab siphon record).
    """

    boss: str = "judge"
    phase: Literal["1", "2", "full"] = "full"
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**63))] = 0
    poses: Literal["fixed", "random"] = "fixed"
    size: str = "800x450"
    renderer: Literal["auto", "gpu", "software"] = "auto"
    speed: Annotated[float, Parameter(validator=Number(gt=0, lte=100))] = 1.0
    fullscreen: Flag = False
    buttons: Flag = False
    no_help: Flag = False
    keys: Path | None = None
    key: Repeated = None
    mask: Path | None = None
    log: Path | None = None
    replay: Path | None = None


def arena(*, flags: ArenaFlags = ArenaFlags()) -> int:
    """Fight a boss yourself in a window."""
    settings, profile = _settings(flags)
    replay = _replay(flags.replay, flags) if flags.replay else None
    from soulslab.arena.binding import Binding
    from soulslab.arena.window.game_loop import run
    from soulslab.arena.window.memory.profile_memory import ProfileMemory, set_process_name

    binding = Binding(profile.duel, profile.attributes, profile.name)

    def open_memory(game: LiveFight) -> ProfileMemory:
        return ProfileMemory(profile, binding, game)

    set_process_name(profile.process.executable)
    run(settings, open_memory, replay)
    return 0


def _replay(path: Path, flags: ArenaFlags) -> Replay:
    from soulslab.arena.window.key_log import Replay, read_key_log

    default = ArenaFlags()
    if any(getattr(flags, name) != getattr(default, name) for name in ("phase", "seed", "poses")):
        raise ConfigError("takes the fight from the log; leave out --phase, --seed and --poses", source="--replay")
    if flags.log:
        raise ConfigError("records a game that a person plays, not a replay; leave it out", source="--log")
    if path.suffix.lower() not in _RECORDINGS:
        return Replay(read_key_log(path))
    from soulslab.games.arena.key_log_from_recording import key_log_from_recording
    from soulslab.siphon.recording.reading import read_recording

    return Replay(key_log_from_recording(read_recording(path, with_frames=False), _boss(flags.boss)))


def _settings(flags: ArenaFlags) -> tuple[WindowSettings, Profile]:
    """Return the settings of the window, and the profile of its memory layout."""
    from soulslab.arena.window.settings import WindowSettings
    from soulslab.games import profile_path
    from soulslab.games.arena import PROFILE_PATH
    from soulslab.siphon.profile import load_profile

    profile = load_profile(profile_path(flags.mask) if flags.mask else PROFILE_PATH)
    chosen, pad = _keys(flags, profile)
    settings = WindowSettings(
        boss=_boss(flags.boss),
        phase=flags.phase,
        random_pose=flags.poses == "random",
        seed=flags.seed,
        size_px=_size(flags.size),
        renderer=flags.renderer,
        title=profile.process.window_title or profile.name,
        keys=chosen,
        pad=pad,
        is_fullscreen=flags.fullscreen,
        shows_help=not flags.no_help,
        shows_buttons=flags.buttons,
        speed=flags.speed,
        log=flags.log,
        folder=Path.cwd(),
    )
    return settings, profile


def _boss(boss: str) -> str | Path:
    from soulslab.arena.boss_file import boss_names

    return boss if boss in boss_names() or not Path(boss).suffix else Path(boss)


def _size(text: str) -> tuple[int, int]:
    from soulslab.arena.window.settings import MAX_SIZE_PX, MIN_SIZE_PX

    match = _SIZE.fullmatch(text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if not all(MIN_SIZE_PX <= side <= MAX_SIZE_PX for side in size):
        raise ConfigError(
            f"must be width x height, as 800x450, each from {MIN_SIZE_PX} to {MAX_SIZE_PX} pixels, not {text!r}",
            source="--size",
        )
    return size


def _keys(flags: ArenaFlags, profile: Profile) -> tuple[dict[str, str], dict[str, str]]:
    """Return the key of each command, and the command of each button of a pad.

    The keys and buttons of the mask, or the default ones, are overridden by the file and then by single keys.
    """
    from soulslab.arena.window.settings import (
        COMMANDS,
        KEYS,
        WINDOW_COMMANDS,
        key_names,
        pad_names,
        pad_of_profile,
        read_keys,
    )

    own = {name: KEYS[name] for name in WINDOW_COMMANDS} if flags.mask is not None else KEYS
    chosen = {**own, **{name: key for name, key in profile.keys.items() if name in COMMANDS}}
    pad = pad_of_profile(profile.pad)
    if flags.keys:
        keys, buttons = read_keys(flags.keys)
        chosen, pad = key_names(chosen, keys, str(flags.keys)), pad_names(pad, buttons, str(flags.keys))
    for text in flags.key or []:
        name, equals, key = text.partition("=")
        if not equals:
            raise ConfigError("is not of the form action=KEY", source=f"--key {text}")
        chosen = key_names(chosen, {name.strip(): key.strip()}, "--key")
    return chosen, pad
