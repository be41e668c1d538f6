"""Every reader of text and archives, given damaged files; see `support.damaged_files`."""

import json
import shutil
import zlib
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.fitting.known_numbers import read_known_numbers
from soulslab.arena.fitting.recorded_fight import MOMENT, RecordedFight, read_fight, save_fight
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.uncertainty import load_uncertainty
from soulslab.arena.window.key_log import KeyLogWriter, read_key_log
from soulslab.arena.window.settings import read_keys
from soulslab.compat.eldengym.eldengym_options import read_keybinds
from soulslab.config import dump_settings, load_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.wrappers.boundary import Boundary, load_boundary, save_boundary
from soulslab.fights import refinement
from soulslab.fleet.access import Access, read_access, write_access
from soulslab.games import profile_path
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.demonstrations.data_set_metadata import METADATA_NAME, describe
from soulslab.learn.demonstrations.recorded_episode import Episode
from soulslab.learn.evaluated_fights import FIGHTS_NAME, append_evaluated_fights, read_evaluated_fights
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import load_player
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks.json_lines_sink import read_json_lines
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from soulslab.learn.tuning.settings import SearchSpace, load_tune_settings
from soulslab.learn.tuning.study_folder import STUDY_NAME
from soulslab.learn.tuning.trial_store import TrialStore, read_trials
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording import committed_file
from support.damaged_files import N, change_archive, change_line, changed, count_refused, mutated
from support.policies import actor_critic, q_policy
from support.replay_saving import live, new_buffer, store_of
from support.studies import write_study

KNOCK_BACKS = list(load_knight().knock_backs)
ODD_ARRAYS = [
    np.arange(3),
    np.zeros((50, 2)),
    np.full(50, np.nan),
    np.full(50, 2**62),
    np.zeros(50, complex),
    np.zeros(50, "V8"),
    np.zeros((10**12, 0), np.int64),
    np.array("x" * 1000),
    np.array(["x"] * 50),
]


# --- text ---------------------------------------------------------------------------------------------------


STUDY = "[study]\nn_trials = 4\n[search]\nlr = { low = 0.1, high = 1, log = true }\n"
PUBLIC_PROFILE = """
[process_info]
name = "chocolate-doom"
window_name = ""
[attributes.HeroHp]
pattern = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
offsets = [0xA4]
type = "int"
"""
TOML_READERS = {
    "settings": (lambda: dump_settings(TrainSettings()), partial(load_settings, TrainSettings)),
    "study": (lambda: STUDY, load_tune_settings),
    "profile": (lambda: profile_path(Path("elden_ring")).read_text(encoding="utf-8"), load_profile),
    "boss": (lambda: (BOSS_DIR / "judge.toml").read_text(encoding="utf-8"), lambda path: load_boss(path, KNOCK_BACKS)),
    "keys": (lambda: 'roll = "LEFT_SHIFT"\n[pad]\nroll = "face_a"\n', read_keys),
    "uncertainty": (
        lambda: "intervals.hp = [900, 1100]\nunknown = ['poise']\nlevel = 0.9\n[known]\npoise = [1.0, 2]\n",
        lambda path: load_uncertainty(path, load_boss("judge", KNOCK_BACKS)),
    ),
    "known numbers": (
        lambda: 'hp = 1037\n"pause_s[0][1]" = [1.0, 1.5]\n[moves.Attack3004]\nwindows = [{}, {damage = 118}]\n',
        read_known_numbers,
    ),
    "public profile": (lambda: PUBLIC_PROFILE, load_profile),
    "boundary": (lambda: "format = 1\n[[rings]]\npoints = [[0, 0], [9, 0], [9.5, 9], [0, 9]]\n", load_boundary),
}


@pytest.mark.parametrize("name", TOML_READERS)
def test_toml(tmp_path, name):
    text, read = TOML_READERS[name]
    path = tmp_path / "file.toml"
    path.write_text(text(), encoding="utf-8")
    assert count_refused(path, read) > N // 4


def test_keybinds(tmp_path):
    path = tmp_path / "keybinds.json"
    actions = {"attack": {"index": 0, "key": "P"}, "roll": {"index": 1, "key": "K"}}
    path.write_text(json.dumps({"version": "2.0", "actions": actions}))
    assert count_refused(path, read_keybinds) > N // 4


def test_key_log(tmp_path):
    path = tmp_path / "fight.keys"
    game = LiveFight(load_boss("judge", KNOCK_BACKS), LiveFightOptions(phase="full", random_pose=False, seed=1))
    writer = KeyLogWriter(path, game, "judge")
    for _ in range(200):
        game.replay_tick(0)
        writer.tick(game)
    writer.log_write(game, game.digest())
    writer.close(game)
    assert count_refused(path, read_key_log) > N // 4


def test_json_lines(tmp_path):
    path = tmp_path / "progress.jsonl"
    path.write_text('{"type":"EvaluationProgress","n_done":1,"n_fights":2,"n_wins":1}\n' * 5)
    assert count_refused(path, lambda path: list(read_json_lines(path))) > N // 4


def test_the_description_of_a_data_set(tmp_path):
    spec = json.dumps({"id": "soulslab/Arena-v0", "kwargs": {"boss": "judge"}})
    spaces = {"observation_space": "{}", "action_space": "{}", "data_format": "hdf5"}
    path = tmp_path / METADATA_NAME
    path.write_text(json.dumps({"env_spec": spec, **spaces, "total_episodes": 3, "total_steps": 30}))
    assert count_refused(path, lambda path: describe(path.parent)) > N // 4


def test_boundary_npz(tmp_path):
    path = tmp_path / "ring.npz"
    save_boundary(Boundary([[(0, 0), (9, 0), (9.5, 9), (0, 9)]]), path)
    assert count_refused(path, load_boundary) > N // 4


def test_recorded_fights(tmp_path):
    moments = np.zeros(50, MOMENT)
    moments["tick"] = np.arange(50)
    fight = RecordedFight(moments=moments, player_animations=("a",), boss_animations=("b",), player_max_hp=100.0)
    path = save_fight(tmp_path, fight)
    assert count_refused(path, read_fight) > N // 4

    def change(path, rng):
        with np.load(path) as arrays:
            columns = dict(arrays)
        name = rng.choice(list(columns))
        if name == "header" and rng.random() < 0.8:
            columns[name] = np.array(json.dumps(changed(json.loads(str(columns[name])), rng)))
        else:
            columns[name] = rng.choice(ODD_ARRAYS)
        np.savez_compressed(path, **columns)

    assert count_refused(path, read_fight, change=change) > N // 2


def test_evaluated_fights(tmp_path):
    rewards = np.zeros(5)
    episode = Episode(np.zeros((6, 1)), np.arange(5), rewards, None, np.ones(5, np.int64), is_terminated=True, seed=1)
    append_evaluated_fights(tmp_path, 1000, [episode, episode._replace(seed=2)])
    path = tmp_path / FIGHTS_NAME
    for change in (None, change_line):
        assert count_refused(path, lambda path: read_evaluated_fights(path.parent), change=change) == 0


@pytest.mark.filterwarnings("ignore")  # Optuna warns about values from which it cannot compute importances
@pytest.mark.parametrize("change", [None, change_line], ids=["bytes", "events"])
@pytest.mark.parametrize("kind", ["read", "resumed"])
def test_the_journal_of_a_study(tmp_path, kind, change):
    write_study(tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    settings = TrainSettings()
    tuning = load_tune_settings(tmp_path / STUDY_NAME)
    space = SearchSpace(tuning.search, settings, "win_rate")

    def resume(path):
        store = TrialStore(path, tuning.study, space)
        store.rows()
        store.importances()
        store.draw()

    assert count_refused(path, read_trials if kind == "read" else resume, change=change) > N // 10


def test_the_state_of_a_refinement(tmp_path):
    settings = refinement.RefineSettings(env_id=ARENA_ID, env_options={"boss": "judge"})
    state = refinement._State.of(tmp_path, [tmp_path], settings)
    path = tmp_path / refinement.STATE_NAME
    outcomes = [{"is_won": True, "game_time_s": 42.1}, {"is_won": False, "game_time_s": 0.1, "is_recorded": False}]
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(state) | {"rounds": [outcomes, outcomes]}))
    for change in (None, change_line):
        assert count_refused(path, lambda path: refinement._resumed(path.parent, state), change=change) > N // 4


def test_clusters(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("run_dir: here\ngames: 1\noverrides: ['env.n_envs=2']\nworkers:\n  - {souls_game: 1, cpus: 0}\n")
    from soulslab.fleet.ray_cluster import read_cluster  # noqa: PLC0415  (Ray takes half a second to import)

    assert count_refused(path, read_cluster) > N // 4


def test_join_files(tmp_path):
    path = tmp_path / "join.toml"
    write_access(
        path, Access(address="rediss://10.0.0.1:6390", run="run", user="game-1", password="p" * 32, ca="-" * 80)
    )
    assert count_refused(path, read_access) > N // 4


def test_the_journal_of_a_recording(tmp_path):
    path = tmp_path / "file.h5"
    whole = b"\x89HDF" * 5000
    journal, page = committed_file.journal_of(path), committed_file.PAGE
    commit = committed_file._Journal(committed_file.JOURNAL_FORMAT, len(whole), {0: bytes(page), 3: b"x" * page})
    committed_file._write_journal(journal, commit)

    def read(_):
        path.write_bytes(whole)
        committed_file.finish_commit(path)
        assert path.stat().st_size <= len(whole) + 3 * page

    def change(journal, rng):
        packed = journal.read_bytes()[4:]
        match rng.randrange(4):
            case 0:
                packed = bytes([packed[0] + 1]) + packed[1:] + b"\x91" * 100_000  # one more part, nested deeply
            case 1:
                packed = mutated(packed, rng)
            case _:
                packed = msgspec.msgpack.encode(changed(msgspec.msgpack.decode(packed), rng))
        journal.write_bytes(zlib.crc32(packed).to_bytes(4, "little") + packed)

    for each in (None, change):
        assert count_refused(journal, read, change=each) == 0


# --- archives -----------------------------------------------------------------------------------------------


POLICIES = {
    "actor-critic": actor_critic,
    "action values": q_policy,
    "phases": lambda: PhasePolicy([q_policy(1), actor_critic(2)], Switch(feature=2, at_most=(0.5,))),
}


@pytest.mark.parametrize("change", [None, change_archive], ids=["bytes", "signed"])
@pytest.mark.parametrize("kind", POLICIES)
def test_policies(tmp_path, kind, change):
    path = tmp_path / "policy.safetensors"
    POLICIES[kind]().save(path)
    assert count_refused(path, load_player, change=change) > N // 4


@pytest.mark.parametrize("change", [None, change_archive], ids=["bytes", "signed"])
def test_checkpoints(tmp_path, change):
    policy = q_policy()
    header = {"policy": msgspec.to_builtins(policy.header), "settings": {}}
    tensors = {f"policy/{name}": tensor for name, tensor in policy.state().items()}
    tensors["learner/average"] = policy.network.parameters_flat.numpy().copy()
    path = CheckpointStore(tmp_path, 3).save(5, tensors, header)
    assert count_refused(path, load_player, change=change) > N // 4
    assert count_refused(path, lambda _: CheckpointStore(tmp_path, 3).latest(), change=change) >= 0


def test_the_rows_of_a_replay_buffer(tmp_path):
    buffer, store = new_buffer(), store_of(tmp_path)
    live(buffer)
    manifest, state = store.save(buffer), buffer.state()

    def read(_):
        again = new_buffer()
        store_of(tmp_path).load(again, manifest)
        again.load(state)
        live(again)

    def change(path, rng):
        tensors, header = read_archive(path)
        rows = tensors["rows"].copy()
        rows.ravel()[rng.choices(range(rows.size), k=rng.choice((1, 4, 64)))] = rng.randrange(256)
        write_archive(path, {"rows": rows}, header)

    path = tmp_path / "replay" / manifest["chunks"][0]["name"]
    assert count_refused(path, read) > N // 4
    assert count_refused(path, read, change=change_archive) > N // 4
    assert count_refused(path, read, change=change) > N // 4


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_states_of_runs(tmp_path, algorithm):
    learner = ("learner.n_steps=8", "learner.minibatch_size=8")
    if algorithm == "rainbow":
        learner = ("learner.batch_size=8", "learner.learning_starts=16", "replay.capacity=256", "run.evaluate_every=0")
    common = (f"algorithm={algorithm}", "env.n_envs=4", "network.widths=[8]", *learner)
    # Resumed runs take one step, or one rollout of 8 steps, in each of the 4 environments.
    n_more = {"rainbow": 4, "ppo": 32}[algorithm]
    begun, resumed = (load_run_settings(None, [*common, f"run.total_steps={n}"]) for n in (128, 128 + n_more))
    train(begun, tmp_path / "run")

    def resume(path):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        train(resumed, tmp_path / "copy", resume=True)

    (path,) = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    assert count_refused(path, resume, change=change_archive) > N // 4
