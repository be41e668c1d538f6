"""``soulslab play``, ``join``, ``film`` and ``remove-tokens``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_FAILED, EXIT_OK, check_file, print_line
from soulslab.cli.parameters import EnvironmentFlags, Flag, Seed, find_run
from soulslab.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    from soulslab.learn.policy_header import Player
    from soulslab.play.policy_actions import PolicyActions

_log = logging.getLogger(__name__)


def join(
    *runs: Path,
    feature: str,
    at_most: Annotated[list[float], Parameter(negative="")],
    out: Path,
    phase: str = "full",
    trust: Flag = False,
) -> int:
    """Join policies for the phases of a fight into one policy that switches between them.

    Args:
        runs: Folders of runs, or policy files, in the order of the phases.
        feature: Feature of the observation that identifies the phase, by name or number, such as boss_hp.
        at_most: The next phase begins when the feature is at most this; once for each policy except the first.
        out: File of the joined policy.
        phase: Default phase of the joined policy, if the fights have phases.
        trust: The first policy's file may choose programs, profiles, servers and modules of the environment, which is
            created if the feature is given by name.
    """
    from soulslab.learn.players import join_runs
    from soulslab.learn.run_folder import POLICY_NAME

    members = [find_run(run) for run in runs]
    if out.resolve() in [(run / POLICY_NAME if run.is_dir() else run).resolve() for run in members]:
        raise ConfigError("is one of the policies to join; choose another file", source="--out")
    policy = join_runs(members, feature, at_most, {"phase": phase}, trust=trust)
    policy.save(out)
    switch = policy.switch
    name = switch.name or f"feature {switch.feature}"
    switches = [f"{run} from {name} <= {below:g}" for run, below in zip(runs[1:], switch.at_most, strict=True)]
    _log.info("%s: %s, then %s", out, runs[0], ", ".join(switches))
    return EXIT_OK


def remove_tokens(path: Path) -> int:
    """Remove the token of a server from files of earlier versions, which wrote it as plain text.

    Change the token of the server too if anyone else could read the files.

    Args:
        path: Folder of a run, a study or a data set, or one file.
    """
    from soulslab.learn.token_removal import remove_tokens as remove

    removal = remove(path)
    for file in removal.changed:
        _log.info("%s: removed a token", file)
    for file in removal.left:
        _log.warning("%s: still holds a token; remove this file, or the token in it", file)
    if not removal.changed and not removal.left:
        _log.info("%s: no token found", path)
    return EXIT_FAILED if removal.left else EXIT_OK


def film(
    policy: Path,
    file: Path = Path("fight.mp4"),
    *,
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**31))] = 0,
    window: Flag = False,
    won: Flag = False,
    explain: Flag = False,
    environment: EnvironmentFlags = EnvironmentFlags(),
) -> int:
    """Film a fight of a trained policy, in the built-in fight or in the game of its training.

    Args:
        policy: Folder of a run, a policy file, or the name of a shipped policy, such as judge.
        file: MP4 file to write; its folder is created if it does not exist.
        seed: Seed of the first fight.
        window: Film the window of the built-in fight; by default, a top view is drawn.
        won: Film the first fight that the policy wins, of at most 100.
        explain: Draw the scores of the best actions into the film.
    """
    if file.suffix != ".mp4":
        raise ConfigError("must end in .mp4, as the name of every film", source=file)
    if file.parent.is_dir():
        check_file(file)
    policy = find_run(policy)
    from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
    from soulslab.film import FilmOptions, film_in, film_policy
    from soulslab.learn.players import load_player

    player = load_player(policy)
    header = player.header
    options = FilmOptions(in_window=window, seed=seed, needs_win=won, explain=explain)
    if environment.env or header.env_id not in (ARENA_ID, ARENA_LIVE_ID):
        if window and {header.env_id, environment.env} <= {ARENA_ID, ARENA_LIVE_ID}:
            raise ConfigError("films the built-in fight; leave out --env", source="--window")
        if window:
            raise ConfigError("films the built-in fight; leave it out for another environment", source="--window")
        env_id, env_options = environment.choose(header.env_id, header.env_options, policy)
        is_won = film_in(player, file, env_id, env_options, options)
    else:
        if environment.option:
            raise ConfigError("is for another environment; name it with --env", source="--option")
        fight = {"boss": environment.boss, "phase": environment.phase, "trust": environment.trust}
        is_won = film_policy(player, file, fight, options)
    result = {True: "a fight that was won", False: "a fight that was lost", None: "an episode"}[is_won]
    _log.info("%s: %s", file, result)
    return EXIT_OK


def play(
    *,
    boss: str | None = None,
    phase: str | None = None,
    seed: Seed | None = None,
    policy: Path | None = None,
    window: Flag = False,
    explain: Flag = False,
    dashboard: Flag = False,
) -> int:
    """Fight a boss yourself in the terminal, or watch a policy; soulslab arena is the fight in a window.

    Args:
        boss: A shipped boss, generated:SEED, a range such as generated:0-63, of which each fight draws a boss, or the
            path of a boss file; by default, that of the policy, or judge.
        phase: 1, 2 or full; by default, that of the policy, or full.
        seed: Seed of the first fight; by default random.
        policy: Folder of a run, a policy file, or the name of a shipped policy, such as judge, to watch.
        window: Watch the policy in the window of the fight, in real time.
        explain: Show the policy's scores of the actions and the reward of each decision; P pauses, N steps once.
        dashboard: Watch the policy and what it computes in a browser instead, until Ctrl-C.
    """
    import gymnasium

    from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
    from soulslab.play.terminal_game import play_in_terminal

    if policy is None:
        if window:
            raise ConfigError("shows a policy: name one with --policy; by hand: soulslab arena", source="--window")
        if explain or dashboard:
            flag = "--explain" if explain else "--dashboard"
            raise ConfigError("shows a policy: name one with --policy", source=flag)
        fight: dict[str, Any] = {"boss": boss or "judge", "phase": phase or "full", "random_pose": True}
        play_in_terminal(gymnasium.make(ARENA_ID, **fight), seed=seed)
        return EXIT_OK
    policy = find_run(policy)
    # A human player does not need the packages of the extra learn.
    from soulslab.learn.players import load_player
    from soulslab.play.policy_actions import fight_options, policy_actions, watch_in_window

    if explain and window:
        raise ConfigError("is for the terminal; leave out --window", source="--explain")
    if dashboard and (explain or window):
        raise ConfigError("replaces terminal and window; leave out --explain and --window", source="--dashboard")
    player = load_player(policy)
    env_id = ARENA_LIVE_ID if window else ARENA_ID
    fight = fight_options(env_id, player.header, boss=boss, phase=phase)
    if window:
        tally = watch_in_window(lambda env: policy_actions(player, env, str(policy)), fight, seed=seed)
        _log.info("%d of %d fights won", tally.wins, tally.fights)
        return EXIT_OK
    env = gymnasium.make(env_id, **fight)
    act = policy_actions(player, env, str(policy))
    if dashboard:
        return _play_in_dashboard(env, player, act, seed)
    play_in_terminal(env, seed=seed, act=act, describe=act.describe if explain else None)
    return EXIT_OK


def _play_in_dashboard(env: gymnasium.Env[Any, Any], player: Player, act: PolicyActions, seed: int | None) -> int:
    """Play fights of a policy for a browser, until Ctrl-C."""
    from contextlib import closing
    from tempfile import TemporaryDirectory

    from soulslab.dashboard.companion import companion
    from soulslab.learn.live_feed import FEED_NAME, LiveFeed
    from soulslab.play.watched_play import play_for_viewers

    with TemporaryDirectory(prefix="soulslab_play_") as folder, closing(env):
        play = Path(folder) / "play"
        play.mkdir()
        feed = LiveFeed(play / FEED_NAME)
        with closing(feed), companion(Path(folder), "/live/play", print_line, is_read_only=True):
            tally = play_for_viewers(env, player, act, feed, seed=seed)
    _log.info("%d of %d fights won", tally.wins, tally.fights)
    return EXIT_OK
