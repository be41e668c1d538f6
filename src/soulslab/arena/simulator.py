"""N duels in parallel: the step kernel, its reward terms, its arrays, and the validation of duel records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena import records as st
from soulslab.arena.boss_file import MAX_MOVES, MAX_WINDOWS_OF_ALL, Boss
from soulslab.arena.boss_rules import boss_is_beaten
from soulslab.arena.duel_rules import begin, duel_tick, late_keys
from soulslab.arena.duel_state import CAMERA_BACK_M, DUEL_STATE
from soulslab.arena.features import BOSS_BIN, N_FEATURES, PLAYER_BIN, write_features, write_state
from soulslab.arena.fight_table import fight_table, write_boss
from soulslab.arena.geometry import uniform
from soulslab.arena.held_out_rules import RULES, HeldOutRules
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.knight_file import load_knight
from soulslab.arena.player_rules import is_open, write_mask
from soulslab.arena.records import MAX_DECISIONS, NEAR_M, SITUATIONS, TICKS_PER_DECISION, Record, Table
from soulslab.arena.relative_features import N_RELATIVE, write_relative
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.errors import InvalidActionError

Autoreset = Literal["next_step", "same_step", "disabled"]
_NEXT_STEP, _SAME_STEP = 1, 2
_RELATIVE = 2
_N_SITUATIONS = len(SITUATIONS)
_AUTORESETS = {"disabled": 0, "next_step": _NEXT_STEP, "same_step": _SAME_STEP}

#: The reward term ``centre`` is nonzero only beyond this distance (SoulsGym 1.1.0).
CENTRE_FREE_M = 4.0
#: Two decisions, the number of actions that a duel remembers.
MAX_LATENCY_TICKS = 2 * TICKS_PER_DECISION


class FightOptions(msgspec.Struct, frozen=True):
    """Options of the fights of a simulator.

    Attributes:
        phase: ``"1"`` ends when the health of phase 1 is 0, ``"2"`` starts there, ``"full"`` is both.
        random_pose: Draw the player's start from the ground's poses, with an offset of up to 0.5 m.
        skip_locked: Continue while "nothing" is the only open action; rewards add up.
        features: Whether the features are written after each step; ``states`` the same for the states.
        relative: Whether these are the relative features (`soulslab.arena.relative_features`).
        max_steps: Steps after which a fight is truncated; 0 uses `MAX_DECISIONS`.
        autoreset: Autoreset mode, as in Gymnasium's vector environments.
        weights: Weight of each reward term; omitted terms have weight 0.
        latency_ticks: Least and greatest time from a decision to its keys, at most `MAX_LATENCY_TICKS`; one is drawn
            for each fight.
        late_share: Probability that a step returns the observation of the step before it, except at the start.
        noise_m: Greatest error of each coordinate of the observed positions, which stay in the limits of the ground.
        held_out_rules: A set of `soulslab.arena.held_out_rules`, for tests and benchmarks of fitted bosses only.
    """

    phase: str = "full"
    random_pose: bool = False
    skip_locked: bool = False
    features: bool = True
    relative: bool = False
    states: bool = False
    max_steps: int = 0
    autoreset: Autoreset = "same_step"
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    latency_ticks: tuple[int, int] = (0, 0)
    late_share: float = 0.0
    noise_m: float = 0.0
    held_out_rules: HeldOutRules = "none"


@rule
def _centre_distance(d: Record, f: Record) -> float:
    dx, dy = d.p_x - f.reward_x, d.p_y - f.reward_y
    return math.sqrt(dx * dx + dy * dy)


@rule
def _decide(d: Record, f: Record, action: int, terms: NDArray[np.float64]) -> None:
    """Play one decision (6 ticks, fewer if the fight ends) and add the approach to the centre in m."""
    before, phase = _centre_distance(d, f), d.phase
    for k in range(TICKS_PER_DECISION):
        keys, is_press = action, k == 0
        if d.latency > 0:  # not a local variable: the compiler would then duplicate the loop, which costs 15 %
            keys, is_press = late_keys(d, f, action, k)
        duel_tick(d, f, keys, is_press)
        if d.p_hp <= 0.0:
            d.over = 1
        elif boss_is_beaten(d, f):
            d.over = 1
            d.won = 1
        if d.over:
            break
    d.decision += 1
    d.s_decisions_by_phase[phase - 1] += 1
    if d.latency > 0:
        d.second_last_action, d.last_action = d.last_action, action
    if d.over == 0:
        after = _centre_distance(d, f)
        if after > CENTRE_FREE_M:
            terms[st.CENTRE] += before - after
        if d.decision >= MAX_DECISIONS:
            d.over = 1
            d.truncated = 1


@rule
def _situation(d: Record, f: Record) -> int:
    """Return the index of the present situation in `SITUATIONS`; an attack is recognised by its animation."""
    dx, dy = d.p_x - d.b_x, d.p_y - d.b_y
    attacks = 0
    for i in range(f.n_moves):  # the transformation is a move whose animation is not among the numbers of attacks
        attacks |= int(f.moves[i].animation == d.b_anim)
    return 2 * attacks + int(dx * dx + dy * dy < NEAR_M * NEAR_M)


@rule
def _play(d: Record, f: Record, action: int, mask: NDArray[np.bool_], r: Record) -> None:
    """Play one step: a decision and, with ``skip_locked``, those after it in which nothing can be done."""
    if not is_open(d, f, action):
        action = NOTHING
        d.s_masked += 1
    boss_hp, player_hp = d.b_hp, d.p_hp
    d.s_actions_by_situation[_situation(d, f), action] += 1
    d.n_rolls = d.n_attacks = d.streak_gain = 0
    terms = r.terms
    terms[:] = 0.0
    n = 0
    while True:
        _decide(d, f, action, terms)
        n += 1
        n_open = write_mask(d, f, mask)
        if d.over or f.skip_locked == 0 or n_open > 1:
            break
        action = NOTHING
    d.s_rolls += d.n_rolls
    d.s_attacks += d.n_attacks
    terms[st.BOSS_DAMAGE] = (boss_hp - d.b_hp) / f.b_max_hp
    terms[st.PLAYER_DAMAGE] = (player_hp - d.p_hp) / f.p_max_hp
    terms[st.WIN], terms[st.DEATH] = d.won, d.p_hp <= 0.0
    terms[st.TIME], terms[st.ROLL], terms[st.ATTACK] = n, d.n_rolls, d.n_attacks
    terms[st.HIT_STREAK] = d.streak_gain
    reward = 0.0
    for i in range(st.N_TERMS):
        r.shares[i] = f.weights[i] * terms[i]
        reward += r.shares[i]
    d.s_return += reward
    r.reward, r.n_decisions, r.n_masked = reward, n, d.s_masked
    r.terminated, r.truncated = d.over - d.truncated, d.truncated


@rule
def _report(d: Record, report: Record) -> None:
    """Write the report of a finished fight."""
    report.fight = d.fight
    report.won, report.n_decisions, report.start_pose = d.won, d.decision, d.start_pose
    report.killed_by, report.hits_dealt, report.hits_taken = d.s_killed_by, d.s_hits_dealt, d.s_hits_taken
    report.rolls, report.attacks = d.s_rolls, d.s_attacks
    report.damage_taken, report.return_ = d.s_damage_taken, d.s_return
    # An assignment between array fields takes 3 s to compile, a loop almost none.
    for i in range(MAX_MOVES):
        report.damage_by_attack[i] = d.s_damage_by_move[i]
        report.uses_by_attack[i], report.hits_by_attack[i] = d.s_uses_by_move[i], d.s_hits_by_move[i]
    for i in range(st.N_PHASES):
        report.decisions_by_phase[i] = d.s_decisions_by_phase[i]
        report.damage_taken_by_phase[i], report.damage_dealt_by_phase[i] = d.s_taken_by_phase[i], d.s_dealt_by_phase[i]
    for i in range(_N_SITUATIONS):
        for k in range(N_ACTIONS):
            report.actions_by_situation[i, k] = d.s_actions_by_situation[i, k]


@rule
def _observe(d: Record, f: Record, features: NDArray[np.float32], state: Record) -> None:
    if f.has_errors:
        _observe_with_errors(d, f, features, state)
    else:
        _write_observation(d, f, features, state)


@rule
def _observe_with_errors(d: Record, f: Record, features: NDArray[np.float32], state: Record) -> None:
    """Write wrong positions; or nothing, so that the observation of the step before remains."""
    if d.decision > 0 and uniform(d) < f.late_share:
        return
    p_x, p_y, b_x, b_y = d.p_x, d.p_y, d.b_x, d.b_y
    d.p_x, d.p_y = _wrong(d, f, p_x, 0), _wrong(d, f, p_y, 1)
    d.b_x, d.b_y = _wrong(d, f, b_x, 0), _wrong(d, f, b_y, 1)
    _write_observation(d, f, features, state)
    d.p_x, d.p_y, d.b_x, d.b_y = p_x, p_y, b_x, b_y


@rule
def _wrong(d: Record, f: Record, true: float, axis: int) -> float:
    """Return a coordinate with a random error, which leaves room for the camera in the limits of the ground."""
    low = f.low[axis] + CAMERA_BACK_M
    high = f.low[axis] + f.extent[axis] - CAMERA_BACK_M
    seen = true + (2.0 * uniform(d) - 1.0) * f.noise
    # A true coordinate beyond them, of a falling player, is not moved inwards.
    return min(max(seen, min(low, true)), max(high, true))


@rule
def _observe_end(
    d: Record,
    f: Record,
    i: int,
    features: NDArray[np.float32],
    states: Table,
    final_features: NDArray[np.float32],
    final_states: Table,
) -> None:
    """Write the last observation of the fight of duel i; a late one is the observation of the step before."""
    if f.has_errors:
        for k in range(features.shape[1]):
            final_features[i, k] = features[i, k]
        final_states[i] = states[i]
    _observe(d, f, final_features[i], final_states[i])


@rule
def _write_observation(d: Record, f: Record, features: NDArray[np.float32], state: Record) -> None:
    if f.write_features == _RELATIVE:
        write_relative(d, f, features)
    elif f.write_features:
        write_features(d, f, features)
    if f.write_states:
        write_state(d, f, state)


@rule
def _restart(duels: Table, i: int, blank: Table, fights: Table) -> None:
    """Start a new fight, with the rules of a random row of ``fights`` (K,); only the duel's generator is kept."""
    rng = duels[i].rng
    duels[i] = blank[0]
    d = duels[i]
    d.rng = rng
    if fights.shape[0] > 1:
        d.fight = int(uniform(d) * fights.shape[0])
    begin(d, fights[d.fight])


@kernel
def reset_duels(
    duels: Table,
    blank: Table,
    which: NDArray[np.bool_],
    fights: Table,
    features: NDArray[np.float32],
    states: Table,
    masks: NDArray[np.bool_],
) -> None:
    """Start a new fight in the duels of the bool array ``which`` (N,)."""
    for i in range(duels.shape[0]):
        if which[i]:
            _restart(duels, i, blank, fights)
            d = duels[i]
            f = fights[d.fight]
            write_mask(d, f, masks[i])
            _observe(d, f, features[i], states[i])


@kernel
def step_duels(
    duels: Table,
    blank: Table,
    actions: NDArray[np.int64],
    fights: Table,
    features: NDArray[np.float32],
    states: Table,
    masks: NDArray[np.bool_],
    results: Table,
    reports: Table,
    final_features: NDArray[np.float32],
    final_states: Table,
    final_masks: NDArray[np.bool_],
    steps: NDArray[np.int64],
    max_steps: int,
) -> int:
    """Step all duels by one action each, in place; return how many fights ended.

    If an action is out of range, nothing changes and -1 - (its index) is returned.
    """
    for i in range(actions.shape[0]):
        if actions[i] < 0 or actions[i] >= N_ACTIONS:
            return -1 - i
    ended = 0
    for i in range(duels.shape[0]):
        d, r = duels[i], results[i]
        f = fights[d.fight]
        if d.over:
            _restart(duels, i, blank, fights)
            f = fights[d.fight]
            r.reward = 0.0
            r.terminated = r.truncated = r.n_decisions = r.n_masked = 0
            r.terms[:] = 0.0
            r.shares[:] = 0.0
            write_mask(d, f, masks[i])
            steps[i] = 0
        else:
            _play(d, f, actions[i], masks[i], r)
            steps[i] += 1
            if d.over == 0 and steps[i] == max_steps:
                d.over = d.truncated = r.truncated = 1
            if d.over:
                ended += 1
                _report(d, reports[i])
                if f.autoreset == _SAME_STEP:
                    _observe_end(d, f, i, features, states, final_features, final_states)
                    for action in range(N_ACTIONS):
                        final_masks[i, action] = masks[i, action]
                    _restart(duels, i, blank, fights)
                    f = fights[d.fight]
                    write_mask(d, f, masks[i])
                    steps[i] = 0
        _observe(d, f, features[i], states[i])
    return ended


@lru_cache(maxsize=16)
def _fight_of(boss: Boss) -> st.Table:
    return fight_table(boss, load_knight())


class Simulator:
    """N duels, stepped in parallel, in place.

    All arrays belong to the simulator and are overwritten by the next call.

    Args:
        boss: The boss; or K bosses, of which each fight draws one.
        n_duels: N.
        options: Options of the fights.

    Attributes:
        boss: The first boss.
        bosses: The bosses, K.
        n_duels: N.
        duels: (N,) `DUEL` records, the complete state.
        fight: (K,) `FIGHT` records, the rules against each boss; `set_boss` changes one.
        features: (N, F) float32, if ``options.features``.
        states: (N,) `DUEL_STATE` records, if ``options.states``.
        masks: (N, A) bool, the open actions.
        steps: (N,) int64, number of steps of the present fights.
        results: (N,) `RESULT` records of the last step.
        reports: (N,) `FIGHT_REPORT` records, valid for duels whose fight ended in the last step.
        final_features: (N, F) float32, features at the end of a fight, with ``autoreset="same_step"``; likewise
            ``final_states`` and ``final_masks``.
    """

    def __init__(self, boss: Boss | Sequence[Boss], n_duels: int, options: FightOptions) -> None:
        self.bosses = [boss] if isinstance(boss, Boss) else list(boss)
        self.boss = self.bosses[0]
        self.n_duels = n_duels
        self.options = options
        self.fight = np.repeat(_fight_of(self.boss), len(self.bosses))
        fight = self.fight[0]
        fight.mode, fight.autoreset = st.PHASES[options.phase], _AUTORESETS[options.autoreset]
        fight.random_pose, fight.skip_locked = options.random_pose, options.skip_locked
        fight.write_features = options.features * (_RELATIVE if options.relative else 1)
        fight.write_states = options.states
        fight.weights[:] = [options.weights.get(name, 0.0) for name in st.REWARD_TERMS]
        fight.n_fights, fight.held_out = len(self.bosses), RULES.index(options.held_out_rules)
        fight.latency_low, fight.latency_high = options.latency_ticks
        fight.late_share, fight.noise = options.late_share, options.noise_m
        fight.has_errors = options.late_share > 0 or options.noise_m > 0
        self.fight[1:] = self.fight[0]
        for number, other in enumerate(self.bosses):
            if other is not self.boss:
                self.set_boss(number, other)
        self.duels = np.zeros(n_duels, st.DUEL)
        self._blank = np.zeros(1, st.DUEL)
        self.features = np.zeros((n_duels, N_RELATIVE if options.relative else N_FEATURES), np.float32)
        self.final_features = np.zeros_like(self.features)
        self.states = np.zeros(n_duels, DUEL_STATE)
        self.final_states = np.zeros_like(self.states)
        self.masks = np.zeros((n_duels, N_ACTIONS), np.bool_)
        self.final_masks = np.zeros_like(self.masks)
        self.steps = np.zeros(n_duels, np.int64)
        self.results = np.zeros(n_duels, st.RESULT)
        self.reports = np.zeros(n_duels, st.FIGHT_REPORT)
        self._step_arguments = (
            self.fight,
            self.features,
            self.states,
            self.masks,
            self.results,
            self.reports,
            self.final_features,
            self.final_states,
            self.final_masks,
            self.steps,
            options.max_steps,
        )

    def set_boss(self, row: int, boss: Boss) -> None:
        """Change the boss of a row of ``fight`` that no duel uses now."""
        self.bosses[row] = boss
        write_boss(self.fight[row], boss, load_knight())

    def boss_of(self, place: int) -> Boss:
        """Return the boss of the present fight of a duel."""
        return self.bosses[self.duels["fight"][place]]

    def fight_of(self, place: int) -> Record:
        """Return the rules of the present fight of a duel."""
        return self.fight[self.duels["fight"][place]]

    def seed(self, seeds: NDArray[np.uint64], which: NDArray[np.bool_]) -> None:
        """Seed the generators of the duels ``which`` (N,) from ``seeds`` (N,); applied by the next `reset`."""
        self.duels["rng"][which] = spread_seeds(seeds[which])

    def reset(self, which: NDArray[np.bool_]) -> None:
        """Start a new fight in the duels ``which`` (N,)."""
        reset_duels(self.duels, self._blank, which, self.fight, self.features, self.states, self.masks)
        self.steps[which] = 0

    def step(self, actions: NDArray[np.int64]) -> int:
        """Step each duel by its action (N,), 0 to 19; return how many fights ended.

        An action that is not open counts as "nothing". A duel that is over starts a new fight instead. An action out of
        range raises `InvalidActionError`, and no duel has changed.
        """
        ended: int = step_duels(self.duels, self._blank, actions, *self._step_arguments)
        if ended < 0:
            place = -1 - ended
            raise InvalidActionError(f"action {actions[place]} of duel {place}: must be 0 to {N_ACTIONS - 1}")
        return ended

    def report_running(self, place: int) -> None:
        """Write the report of a fight that has not ended into ``reports``, with its statistics so far."""
        # Plain Python: this is called at most once per episode, and a kernel would have to be compiled for it.
        getattr(_report, "py_func", _report)(self.duels[place], self.reports[place])


def spread_seeds(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well separated generator states for any seeds (splitmix64; Steele, Lea and Flood 2014); never zero."""
    z = seeds.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    z[z == 0] = 1
    return z


#: Larger than any value of a fight, and small enough that neither integers nor floats overflow, by kind of dtype.
_MOST = {"i": 2**40, "u": 2**16 - 1, "f": 1e9}


def find_impossible_field(duels: Table, fight: Record) -> str | None:
    """Return a message about a value of ``duels`` (N,) that cannot occur in a fight, or None if all values are valid.

    The compiled rules do not check indices, so a record from a file has to be checked before they use it.
    """
    for name, (low, high) in _limits(fight).items():
        values = duels[name]
        wrong = ~((values >= low) & (values <= high))  # so that NaN is wrong
        if wrong.any():
            return f"{name} is {values[wrong][0]}, not in [{low}, {high}]"
    # A window of the boss's present move, or the index after its last window.
    moves, windows = duels["b_move"], duels["b_window"]
    most = np.where(moves >= 0, fight.moves["n_windows"][moves], fight.moves["n_windows"].max())
    if (windows > most).any():
        return f"b_window is {windows[windows > most][0]}, more than its move has"
    return None


def _limits(fight: Record) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest value of each field, except for the generator, which can have any."""
    n_moves = int(fight.n_moves)
    kinds = {name: st.DUEL[name].base.kind for name in st.DUEL.names or () if name != "rng"}
    # No negative number for unsigned fields: numpy 2.0 on Windows crashes when it compares parts of records with one.
    limits: dict[str, tuple[float, float]] = {
        name: (0 if kind == "u" else -_MOST[kind], _MOST[kind]) for name, kind in kinds.items()
    }
    limits |= dict.fromkeys(("over", "won", "truncated", "lock_on"), (0, 1))
    limits |= {
        "phase": (0, 2),  # 0 before the first reset
        "start_pose": (-1, int(fight.n_poses) - 1),
        "n_projectiles": (0, st.MAX_PROJECTILES),
        "p_anim": (0, len(PLAYER_BIN) - 1),
        "fight": (0, int(fight.n_fights) - 1),
        "latency": (0, MAX_LATENCY_TICKS),
        "last_action": (0, N_ACTIONS - 1),
        "second_last_action": (0, N_ACTIONS - 1),
        "p_fire_move": (-1, n_moves - 1),
        "b_mode": (st.ROAMING, st.THROWN),
        "b_move": (-1, n_moves - 1),
        "b_window": (0, MAX_WINDOWS_OF_ALL),
        "b_anim": (-1, len(BOSS_BIN) - 1),
        "q_move": (-1, n_moves - 1),
        "q_knock": (-1, st.MAX_KNOCK_BACKS - 1),
        "s_killed_by": (-1, n_moves - 1),
    }
    return limits
