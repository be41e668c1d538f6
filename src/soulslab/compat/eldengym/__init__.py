"""The public interface of EldenGym 0.6.0, implemented with soulslab (docs/migrating.md)."""

from typing import TYPE_CHECKING, Final, NoReturn

from soulslab.compat.eldengym.eldengym_env import EldenGymEnv, list_envs, make, register
from soulslab.compat.eldengym.eldengym_rewards import BossDefeatReward, CustomReward, RewardFunction, ScoreDeltaReward

__all__ = [
    "BossDefeatReward",
    "CustomReward",
    "EldenGymEnv",
    "RewardFunction",
    "ScoreDeltaReward",
    "list_envs",
    "make",
    "register",
]

#: Names of EldenGym that work with environments of soulslab unchanged.
_WRAPPERS: Final = (
    "FrameStack",
    "ResizeFrame",
    "GrayscaleFrame",
    "DictFrameStack",
    "DictResizeFrame",
    "DictGrayscaleFrame",
    "NormalizeMemoryAttributes",
    "HPRefundWrapper",
    "AnimFrameWrapper",
    "SDFObsWrapper",
    "OOBSafetyWrapper",
    "DodgePolicyRewardWrapper",
    "ArenaBoundary",
    "BoundaryDistances",
    "wrappers",
    "arena_boundary",
)
#: Replacements of names of EldenGym's package that this package does not have.
_REPLACEMENTS: Final = {
    **dict.fromkeys(("registry", "envs"), "list_envs() returns the names, register() adds one"),
    "EldenClient": "env.client has its properties",
    "SiphonClient": "env.session reads and writes the game; soulslab.siphon.rpc.client.connect(address) returns a "
    "session with a game on a server",
    **dict.fromkeys(_WRAPPERS, "EldenGym's own works with this environment; import it from eldengym"),
}

if not TYPE_CHECKING:  # for mypy, a module with __getattr__ has every name

    def __getattr__(name: str) -> NoReturn:
        """Raise an error that names the replacement of a name of EldenGym."""
        if name not in _REPLACEMENTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Python replaces the message of an AttributeError in ``from soulslab.compat.eldengym import ...``.
        raise ImportError(f"{__name__} has no {name!r}; {_REPLACEMENTS[name]}", name=__name__)
