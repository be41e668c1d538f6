"""Key logs: writing during a game, reading (also incomplete files), and exact replay."""

import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import BUTTONS, PRESSES, LiveFight, LiveFightOptions
from soulslab.arena.window.key_log import (
    CHECK_TICKS,
    RULES,
    Check,
    KeyLogWriter,
    Replay,
    State,
    Ticks,
    read_key_log,
    runs_of,
)
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import KeyLogError

N_TICKS = 900


@pytest.fixture(scope="module")
def judge():
    return load_boss("judge", list(load_knight().knock_backs))


def play(game, writer, seed, n_ticks=N_TICKS):
    """Play with random buttons, and occasional restarts and lock-on commands."""
    rng = np.random.default_rng(seed)
    held = set()
    for _ in range(n_ticks):
        pressed = [name for name in PRESSES if rng.random() < 0.02]
        held = {name for name in BUTTONS if (rng.random() < 0.9) == (name in held)}
        if rng.random() < 0.004:
            game.toggle_lock_on()
        if rng.random() < 0.004:
            game.restart()
        game.tick(held, pressed)
        writer.tick(game)


@pytest.fixture
def game(judge):
    return LiveFight(judge, LiveFightOptions(seed=11, random_pose=True))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "game.log"


@pytest.fixture
def logged(game, path):
    """The game that was played, its log, and its digest after each tick."""
    writer = KeyLogWriter(path, game, "judge")
    play(game, writer, 5)
    writer.close(game)
    return path


def play_all(log):
    replay = Replay(log)
    while not replay.is_over:
        replay.tick()
    return replay


def test_a_log_plays_to_the_same_end(game, logged):
    replay = play_all(read_key_log(logged))
    assert replay.n_ticks == N_TICKS
    assert replay.fight.duel.tobytes() == game.duel.tobytes()
    assert (replay.fight.stage, replay.fight.n_fights) == (game.stage, game.n_fights)
    assert game.n_fights > 1
    assert replay.fight.history.tobytes() == game.history.tobytes()


def test_the_log_is_small(logged):
    assert logged.stat().st_size < 20 * N_TICKS


def test_an_incomplete_log_is_replayed_up_to_its_last_line(game, logged):
    logged.write_bytes(logged.read_bytes()[:-7])
    log = read_key_log(logged)
    assert N_TICKS - CHECK_TICKS <= log.n_ticks < N_TICKS
    assert play_all(log).n_ticks == log.n_ticks


def test_writes_to_the_game_are_replayed(game, path):
    writer = KeyLogWriter(path, game, "judge")
    play(game, writer, 1, 100)
    digest = game.digest()
    game.duel.b_hp, game.no_death, game.next_seed = 100.0, True, 77
    writer.log_write(game, digest)
    play(game, writer, 2, 500)
    writer.close(game)
    assert any(isinstance(line, State) for line in read_key_log(path).lines)
    replay = play_all(read_key_log(path))
    assert replay.fight.duel.tobytes() == game.duel.tobytes()
    assert replay.fight.no_death


def test_a_different_fight_is_reported_with_its_tick(logged):
    log = read_key_log(logged)
    lines = list(log.lines)
    at = next(i for i, line in enumerate(lines) if line.runs != ((CHECK_TICKS, 19),) and i > 2)
    lines[at] = Ticks(runs=((CHECK_TICKS, 19),), digest=lines[at].digest)
    with pytest.raises(KeyLogError, match=f"tick {(at + 1) * CHECK_TICKS} ") as error:
        play_all(msgspec.structs.replace(log, lines=tuple(lines)))
    assert error.value.tick == (at + 1) * CHECK_TICKS


def test_a_state_that_no_fight_can_be_in_is_refused(game, logged):
    wrong = game.duel.copy()
    wrong.b_move = 10**6
    state = msgspec.structs.replace(State.of(game), duel=wrong.tobytes())
    log = msgspec.structs.replace(read_key_log(logged), lines=(Ticks(runs=((10, 0),)), state))
    with pytest.raises(KeyLogError, match=r"after tick 10: this state cannot occur .*: b_move is 1000000, not in"):
        play_all(log)


def test_checks_from_outside_allow_for_their_slack(judge, logged):
    log = read_key_log(logged)
    replay, digests = Replay(log), {}
    while not replay.is_over:
        replay.tick()
        digests[replay.fight.n_ticks] = replay.fight.digest()
    near = [Check(tick=tick, digest=digests[tick + off], slack_ticks=4) for tick, off in ((50, 4), (200, -4), (300, 0))]
    assert play_all(msgspec.structs.replace(log, checks=tuple(near))).n_ticks == N_TICKS
    far = Check(tick=400, digest=digests[410], slack_ticks=4)
    with pytest.raises(KeyLogError, match="tick 400 "):
        play_all(msgspec.structs.replace(log, checks=(far,)))


def test_a_log_overwrites_nothing(game, logged):
    before = logged.read_bytes()
    with pytest.raises(KeyLogError, match="already exists"):
        KeyLogWriter(logged, game, "judge")
    assert logged.read_bytes() == before


def test_a_log_needs_a_folder(game, tmp_path):
    with pytest.raises(KeyLogError, match="cannot be created: No such file"):
        KeyLogWriter(tmp_path / "none" / "game.log", game, "judge")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: b"PNG\n" + text, "is not a key log"),
        (lambda text: text[:0], "is not a key log"),
        (lambda text: b"{}\n" + text, "is not a key log"),
        (lambda text: text.replace(b'"format":1', b'"format":2'), "its format is 2; this soulslab reads format 1"),
        (lambda text: text.replace(b'"rules":0', b'"rules":9'), "rules version 9; this soulslab has version 0"),
        (lambda text: text.replace(b'"phase":"full"', b'"phase":3'), "line 1 is damaged"),
        (lambda text: text.replace(b'"phase":"full"', b'"phase":"3"'), "line 1 is damaged"),
        (lambda text: text.replace(b'"runs"', b'"rums"', 1), "line 2 is damaged"),
        (lambda text: text + b'{"type":"state"}\n', "is damaged"),
    ],
)
def test_invalid_files_are_reported(logged, change, said):
    logged.write_bytes(change(logged.read_bytes()))
    with pytest.raises(KeyLogError, match=said):
        read_key_log(logged)


def test_a_state_of_another_size_is_reported(game, path):
    writer = KeyLogWriter(path, game, "judge")
    writer.log_write(game, game.digest())
    writer.close(game)
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"duel":"AAAA', b'"duel":"').replace(b'"duel":"', b'"duel":"AAAAAAAA', 1))
    with pytest.raises(KeyLogError, match="a state of"):
        read_key_log(path)


def test_there_has_to_be_a_file(path):
    with pytest.raises(KeyLogError, match="cannot be read: No such file"):
        read_key_log(path)


def test_a_changed_boss_is_reported(tmp_path, game, path):
    boss = tmp_path / "mine.toml"
    text = (BOSS_DIR / "judge.toml").read_text(encoding="utf-8")
    boss.write_text(text, encoding="utf-8")
    writer = KeyLogWriter(path, game, str(boss))
    writer.close(game)
    assert play_all(read_key_log(path)).n_ticks == 0
    hp = next(line for line in text.splitlines() if line.startswith("hp"))
    boss.write_text(text.replace(hp, "hp = 999", 1), encoding="utf-8")
    with pytest.raises(KeyLogError, match="has changed since"):
        Replay(read_key_log(path))
    boss.unlink()
    with pytest.raises(KeyLogError, match="the boss of the log"):
        Replay(read_key_log(path))


def test_the_version_of_the_rules_is_that_of_the_environments():
    assert ARENA_ID.endswith(f"-v{RULES}")


def test_runs():
    assert runs_of([3, 3, 19, 3]) == ((2, 3), (1, 19), (1, 3))
