"""Whole fights with Iudex have the values that SoulsGym computes from the same memory (`test_equal_to_soulsgym`)."""

import math
import struct

import numpy as np
import pytest

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.episode import InPlaceEpisode
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.siphon.session import SessionOptions
from support import soulsgym_formulas as formulas
from support.long_form import IS_LONG
from support.masked_game import MaskedSession
from support.soulsgym_moments import IUDEX, PLAYER_HP, Moment, is_at_a_lock, iudex_env

N_FIGHTS = 100 if IS_LONG else 2
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


class MemoryReader:
    """Reads a fight from memory, and stores both healths from before their refill."""

    def __init__(self, arena):
        self._arena = arena
        self._hp = ()
        arena.on_advance = self._store_health

    def _store_health(self):
        duel = self._arena.fight.duel
        self._hp = math.ceil(duel.p_hp), math.ceil(duel.b_hp)

    def _read(self, name, n_bytes):
        return self._arena.process.read(self._arena.table.address_of(name), n_bytes)

    def moment(self):
        """Return the current moment in memory."""
        numbers = {name: struct.unpack("<i", self._read(name, 4))[0] for name in ("player.sp", "boss.attack_id")}
        x, y, height, angle = formulas.pose(self._read("player.pose", 24))
        names = [self._read(f"{who}.animation", 40).decode("utf-16-le").split("\0")[0] for who in ("player", "boss")]
        player_s, boss_s = (
            struct.unpack("<f", self._read(f"{who}.animation_time", 4))[0] for who in ("player", "boss")
        )
        return Moment(
            player=(x, y, height, angle),
            boss=tuple(formulas.pose(self._read("boss.pose", 24))),
            camera=tuple(formulas.camera_pose(self._read("camera.direction", 28))),
            player_sp=numbers["player.sp"],
            player_animation=names[0],
            player_animation_s=player_s,
            boss_animation=names[1],
            boss_animation_s=boss_s,
            boss_length_s=struct.unpack("<f", self._read("boss.animation_length", 4))[0],
            attack_id=numbers["boss.attack_id"],
            lock_on=bool(self._read("lock_on", 1)[0]),
        )

    def losses(self):
        """Return the health that player and boss have lost since the last refill."""
        return PLAYER_HP - self._hp[0], formulas.BOSS_MAX_HP - self._hp[1]


def test_whole_fights_of_the_environment():
    """Episodes in place, as in SoulsGym: health is refilled after each read, and losses are counted."""
    session = MaskedSession(PROFILE_PATH, SessionOptions(options={"boss": "judge"}))
    env = iudex_env(session, episodes="in_place", phase="1", observation="dict")
    rng = np.random.default_rng(6)
    n_ends = 0
    for _ in range(N_FIGHTS):
        _, info = env.reset(seed=int(rng.integers(1000)))
        memory = MemoryReader(session.arena)
        player_hp, boss_hp = PLAYER_HP, formulas.BOSS_MAX_HP
        before = memory.moment().observation()
        for _ in range(400):
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            seen, reward, is_over, _, info = env.step(action)
            moment = memory.moment()
            lost = memory.losses()
            player_hp, boss_hp = max(player_hp - lost[0], 0), max(boss_hp - lost[1], 0)
            after = moment.observation() | {"player_hp": player_hp, "boss_hp": boss_hp}
            if is_over:
                break
            for name, value in after.items():
                space = env.observation_space[name]
                bounded = np.clip(value, space.low, space.high) if hasattr(space, "low") else value
                np.testing.assert_allclose(np.squeeze(seen[name]), np.squeeze(bounded), err_msg=name, **CLOSE)
            if not moment.player_animation.startswith("Fall") and not is_at_a_lock(moment):
                wanted = formulas.mask(moment.player_animation, moment.player_animation_s, moment.player_sp)
                assert info["action_mask"].tolist() == wanted.tolist()
            assert reward == pytest.approx(formulas.reward(before, after), abs=1e-6)
            before = after
        n_ends += is_over
    assert n_ends
    env.close()


def test_difference_a_phase_has_a_part_of_the_boss_s_health():
    """In SoulsGym each phase begins with full health; here the first phase ends at half health, as in the game."""
    episode = InPlaceEpisode(IUDEX, DuelOptions(phase="1"))
    state = np.zeros(1, DUEL_STATE)[0]
    state.player_hp, state.boss_hp = PLAYER_HP, formulas.BOSS_MAX_HP // 2
    assert episode.outcome(state) == "won"
    state.boss_hp += 1
    assert not episode.outcome(state)
