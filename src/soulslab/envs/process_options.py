"""Options of an environment that is made from a profile, and the session that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from soulslab.config import Secret
from soulslab.envs.arguments import refuse_unknown_options
from soulslab.envs.process_checks import read_settings
from soulslab.envs.process_settings import ACTION_MODES, OBSERVATIONS, ON_FAILURE, ON_LOST_TICK, EnvSettings
from soulslab.envs.process_start import GameKeeper
from soulslab.errors import EnvironmentUsageError, UnknownRewardError, did_you_mean, optional_imports
from soulslab.games import profile_path
from soulslab.siphon.profile import Profile, load_profile
from soulslab.siphon.read_only import ObservedSession
from soulslab.siphon.session import Session, SessionOptions


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Process-v0``; those that are None leave the profile's ``[env]`` table as it is.

    Attributes:
        profile: Path of the profile, the name of a game that comes with one (``doom``), or a profile that is loaded.
        observation: Replaces ``env.observation``.
        pixels: Replaces ``env.pixels``, as ``{"width_px": 84, "height_px": 84, "is_grey": False}``.
        action_mode: Replaces ``env.action_mode``.
        frame_skip: Replaces ``env.frame_skip``.
        max_steps: Replaces ``env.max_steps``.
        random_start_ticks: Replaces ``env.random_start_ticks``.
        on_lost_tick: Replaces ``env.on_lost_tick``.
        on_failure: What happens in a step in which the game dies, freezes, loses its window or cannot be read:
            ``"raise"`` the error, or ``"truncate"`` the episode. The next reset brings the game back in both cases. A
            `LostTickError` that ``on_lost_tick`` asks for is always raised.
        reward: Weights by term, in place of those in ``env.reward``; 0 switches a term off.
        options: Options of the command that starts the game (the profile's ``process.options``).
        pid: Attach to this process; 0 starts the game, or finds it where the profile has no command.
        launch: See `SessionOptions.launch`; "" starts a game of its own where the profile has a command.
        server: ``host:port`` of a soulslab server that has the game; "" for a game on this machine.
        token: The server's token, a `soulslab.config.Secret`.
        token_file: File with the server's token; with neither, the environment variable ``SOULSLAB_TOKEN`` is read.
        tls: File with the server's certificate, for one on another machine.
        display: See `SessionOptions.display`; "" with ``render_mode="human"``.
        allow_unknown_version: Attach although the profile does not know this version of the game. As in any other,
            every value that is needed has to pass the self-check (docs/games.md) before anything else happens.
        read_only: Observe a game that a person or another program plays: no write, no key, no control of its time, no
            restart. A reset waits until no end condition holds, a step waits for its length in wall time, and the only
            action is the one that holds no key.
        deterministic: Start the game deterministically (`SessionOptions.deterministic`): ``reset(seed=...)`` restarts
            it with that seed.
        session: An open session, or what opens one, in place of all that is said above about it.
    """

    profile: Any = None
    observation: str | None = None
    pixels: dict[str, Any] | None = None
    action_mode: str | None = None
    frame_skip: int | None = None
    max_steps: int | None = None
    random_start_ticks: int | None = None
    on_lost_tick: str | None = None
    on_failure: str = "raise"
    reward: dict[str, float] | None = None
    options: dict[str, Any] = {}
    pid: int = 0
    launch: str = ""
    server: str = ""
    token: Secret | None = None
    token_file: str | Path = ""
    tls: str = ""
    display: str | None = None
    allow_unknown_version: bool = False
    read_only: bool = False
    deterministic: bool = False
    session: Any = None


def make_options(options: Mapping[str, Any]) -> ProcessOptions:
    """Return the options of an environment, with a clear error for one that does not exist or cannot be."""
    refuse_unknown_options("soulslab/Process-v0", options, ProcessOptions.__struct_fields__)
    given = ProcessOptions(**options)
    if given.profile is None and not hasattr(given.session, "profile"):
        raise EnvironmentUsageError("profile is missing: give the path of a TOML file, profile='my_game.toml'")
    if given.observation is not None and given.observation not in OBSERVATIONS:
        hint = did_you_mean(str(given.observation), OBSERVATIONS)
        raise EnvironmentUsageError(f"observation: unknown kind {given.observation!r}{hint}")
    if given.action_mode is not None and given.action_mode not in ACTION_MODES:
        hint = did_you_mean(str(given.action_mode), ACTION_MODES)
        raise EnvironmentUsageError(f"action_mode: unknown mode {given.action_mode!r}{hint}")
    if given.on_lost_tick is not None and given.on_lost_tick not in ON_LOST_TICK:
        hint = did_you_mean(str(given.on_lost_tick), ON_LOST_TICK)
        raise EnvironmentUsageError(f"on_lost_tick: unknown choice {given.on_lost_tick!r}{hint}")
    if given.on_failure not in ON_FAILURE:
        hint = did_you_mean(str(given.on_failure), ON_FAILURE)
        raise EnvironmentUsageError(f"on_failure: unknown choice {given.on_failure!r}{hint}")
    check_game_options(given)
    if given.read_only:
        for name in ("deterministic", "options"):
            if getattr(given, name):
                raise EnvironmentUsageError(f"{name}: a read-only environment starts no game; leave out one of the two")
        if given.launch not in ("", "never"):
            raise EnvironmentUsageError(f"launch is {given.launch!r}, but a read-only environment starts no game")
    if given.server and given.session is not None:
        raise EnvironmentUsageError("give either server or session, not both")
    return given


def check_game_options(given: Any) -> None:
    """Raise `EnvironmentUsageError` for an option that says where a game is, and has the wrong type.

    Args:
        given: Options with ``server``, ``token``, ``token_file``, ``tls`` and ``pid``.
    """
    for name in ("server", "tls"):
        value = getattr(given, name)
        if not isinstance(value, str):
            raise EnvironmentUsageError(f"{name} must be text, not {_of_type(value)}")
    _check_token(given.token, given.token_file)
    if isinstance(given.pid, bool) or not isinstance(given.pid, int) or given.pid < 0:
        raise EnvironmentUsageError(f"pid must be the number of a process, not {_of_type(given.pid)}")


def _of_type(value: Any) -> str:
    """Return what is wrong with an option; the value itself may be a secret."""
    is_list = isinstance(value, list | tuple)
    hint = "; a list, with one for each environment, is for make_vec" if is_list else ""
    return f"of type {type(value).__name__}{hint}"


def _check_token(token: Any, token_file: Any) -> None:
    """Check the options ``token`` and ``token_file`` of an environment.

    Args:
        token: The first.
        token_file: The second.

    Raises:
        EnvironmentUsageError: The token is not a secret, the file is no path, or both are given.
    """
    if token is not None and not isinstance(token, Secret):
        raise EnvironmentUsageError(
            "token must be a soulslab.config.Secret, because Gymnasium and others write the options of an environment "
            "to files; give token_file, the environment variable SOULSLAB_TOKEN, or token=Secret(...)"
        )
    if not isinstance(token_file, str | Path):
        raise EnvironmentUsageError(f"token_file must be the path of a file, not {_of_type(token_file)}")
    if token and token_file:
        raise EnvironmentUsageError("give either token or token_file, not both")


def find_profile(given: ProcessOptions) -> tuple[Profile, str]:
    """Return the profile and the name of its file."""
    if isinstance(given.profile, Profile):
        return given.profile, given.profile.name
    if given.profile is None:
        profile: Profile = given.session.profile
        return profile, profile.name
    path = profile_path(Path(given.profile))
    return load_profile(path), str(path)


def make_settings(given: ProcessOptions, profile: Profile, source: str) -> EnvSettings:
    """Return the profile's ``[env]`` table with what the options replace."""
    names = ("observation", "pixels", "action_mode", "frame_skip", "max_steps", "random_start_ticks", "on_lost_tick")
    changes = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    settings = read_settings(profile, source, changes)
    terms = dict(settings.reward)
    for name, weight in (given.reward or {}).items():
        if name not in terms:
            raise UnknownRewardError("term", name, terms)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not np.isfinite(weight):
            raise EnvironmentUsageError(f"reward: the weight of {name!r} must be a number, not {weight!r}")
        terms[name] = msgspec.structs.replace(terms[name], weight=float(weight))
    return msgspec.structs.replace(settings, reward={name: term for name, term in terms.items() if term.weight})


def make_keeper(given: ProcessOptions, profile: Profile, render_mode: str | None) -> GameKeeper:
    """Return what opens and holds the session."""
    if given.session is not None and not callable(given.session):
        return GameKeeper(None, ObservedSession(given.session) if given.read_only else given.session)
    opener = _opener(given, profile, render_mode) if given.session is None else _seeded(given.session)
    return GameKeeper((lambda seed: ObservedSession(opener(seed))) if given.read_only else opener)


def _seeded(make_session: Callable[[], Session]) -> Callable[[int | None], Session]:
    def open_seeded(seed: int | None) -> Session:
        session = make_session()
        if seed is not None:
            session.restart(seed=seed)
        return session

    return open_seeded


def _opener(given: ProcessOptions, profile: Profile, render_mode: str | None) -> Callable[[int | None], Session]:
    launch_options = {name: str(value) for name, value in given.options.items()}
    if given.server:
        return lambda seed: _connect(given, profile, launch_options, seed)
    display = given.display if given.display is not None else ("" if render_mode == "human" else "private")
    is_to_start = bool(profile.process.command) and not given.pid and not given.read_only
    options = SessionOptions(
        pid=given.pid,
        display=display,
        launch=given.launch or ("always" if is_to_start else "never"),
        options=launch_options,
        is_read_only=given.read_only,
        allow_unknown_version=given.allow_unknown_version,
        controller="" if given.read_only else f"an environment of {profile.name}",
    )

    def open_here(seed: int | None) -> Session:
        with optional_imports():
            from soulslab.siphon.local import open_session  # noqa: PLC0415  (X only where a game is opened)

        if seed is None:
            return open_session(profile, options)
        return open_session(profile, msgspec.structs.replace(options, deterministic=True, seed=seed))

    return open_here


def _connect(given: ProcessOptions, profile: Profile, launch_options: Mapping[str, str], seed: int | None) -> Session:
    with optional_imports():
        from soulslab.siphon.rpc.client import connect  # noqa: PLC0415  (gRPC only where it is needed)
        from soulslab.siphon.rpc.tokens import find_token  # noqa: PLC0415  (as above)

    session = connect(given.server, token=find_token(given.token, given.token_file), tls=given.tls or None)
    try:
        _refuse_other(session.profile, profile, given.server)
        if launch_options or seed is not None:
            session.restart(launch_options or None, seed=seed)
    except BaseException:
        session.close()
        raise
    return session


def _refuse_other(theirs: Profile, ours: Profile, server: str) -> None:
    for name in ("attributes", "keys", "clock"):
        if getattr(theirs, name) != getattr(ours, name):
            raise EnvironmentUsageError(
                f"the server at {server} has a profile with other {name}; copy its file and give that, or serve "
                f"this one (with --boss, for a boss that the profile of a real game does not name)"
            )
    for name, entity in ours.entities.items():
        # Where an id is from two files may tell differently.
        if name not in theirs.entities or theirs.entities[name].id != entity.id:
            raise EnvironmentUsageError(
                f"the server at {server} does not look for the {name} with the id {entity.id}; serve that one (--boss)"
            )
