"""Options of `EldenGymEnv`: EldenGym's options with the same names, and options of `SoulsDuelEnv`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from soulslab.compat.eldengym.eldengym_rewards import ScoreDeltaReward, check_reward_function
from soulslab.envs.arguments import refuse_unknown_options
from soulslab.errors import EnvironmentUsageError, did_you_mean

#: Time of a frame at 60 frames per second; EldenGym waits for one frame after it has pressed its keys.
FRAME_MS: Final = 1000 / 60
FRAME_FORMATS: Final = ("jpeg", "raw")
MAX_FRAME_PX: Final = 4096

#: Options of `SoulsDuelEnv` with the same meaning here.
PASSED_ON: Final = (
    "pid",
    "token",
    "token_file",
    "tls",
    "check_keys",
    "display",
    "session",
    "folder",
    "proton",
    "stand_in",
    "allow_unknown_version",
    "game_speed",
    "hard_reset_minutes",
    "launch_seed",
    "no_wear",
    "play_time",
    "player_stats",
    "reload_minutes",
    "renderer",
    "size_px",
    "step_deadline_s",
    "reset_deadline_s",
    "weapons",
)

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
    frame_format: str = "jpeg"
    frame_quality: int = 85
    max_steps: int | None = None
    launch_game: bool = False
    save_file_name: str | None = None
    save_file_dir: str | None = None
    use_device: str = "key"
    frame_px: tuple[int, int] | None = (320, 180)
    step_ms: float = FRAME_MS

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        if not isinstance(self.host, str):
            raise EnvironmentUsageError(f"host must be 'host:port' of a soulslab server, or '', not {self.host!r}")
        if self.frame_format not in FRAME_FORMATS:
            hint = did_you_mean(str(self.frame_format), FRAME_FORMATS)
            raise EnvironmentUsageError(f"frame_format: unknown kind {self.frame_format!r}{hint}")
        if self.max_steps is not None and (not _is_whole(self.max_steps) or self.max_steps < 1):
            raise EnvironmentUsageError(f"max_steps must be a whole number from 1 or None, not {self.max_steps!r}")
        if not isinstance(self.launch_game, bool):
            raise EnvironmentUsageError(f"launch_game must be True or False, not {self.launch_game!r}")
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
        if self.frame_px is not None and not _is_size(self.frame_px):
            raise EnvironmentUsageError(
                f"frame_px must be a width and a height, from 1 to {MAX_FRAME_PX}, or None, not {self.frame_px!r}"
            )

    @property
    def reward(self) -> Any:
        """The reward function."""
        function = self.reward_function
        return check_reward_function(function) if function is not None else ScoreDeltaReward()


def split_options(options: Mapping[str, Any]) -> tuple[EldenGymOptions, dict[str, Any]]:
    """Return the checked options of the environment, and the options for `SoulsDuelEnv`.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
    """
    own = EldenGymOptions.__struct_fields__
    refuse_unknown_options("EldenGym's environment", options, (*own, *PASSED_ON))
    given = EldenGymOptions(**{name: value for name, value in options.items() if name in own})
    given.check()
    for name in ("token", "token_file", "tls"):
        if options.get(name) and not given.host:
            raise EnvironmentUsageError(f"{name} is for a server; give its address as host='host:port'")
    if "frame_format" in options or "frame_quality" in options:
        _log.info("frame_format and frame_quality have no effect: frames are not compressed")
    return given, {name: value for name, value in options.items() if name in PASSED_ON}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(size: Any) -> bool:
    is_pair = isinstance(size, tuple | list) and len(size) == 2
    return is_pair and all(_is_whole(value) and 1 <= value <= MAX_FRAME_PX for value in size)
