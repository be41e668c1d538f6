"""Preparation of decisions for the browser: names, numbers, and the picture of the fight."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import blow_of
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_state import DUEL_FIELDS, DUEL_STATE
from soulslab.arena.fight_table import fight_table
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DUEL, FIGHT, Record
from soulslab.arena.top_down import draw_duel
from soulslab.arena.vocabulary import ACTION_NAMES, BOSS_ANIMATIONS
from soulslab.errors import BossFileError
from soulslab.learn.live_feed import FeedInfo, Moment

PICTURE_HEIGHT_PX: Final = 288
N_QUANTILE_ACTIONS: Final = 3
"""Number of actions whose distribution of the return is shown."""

N_HIDDEN: Final = 128
"""Largest number of units of a hidden layer that are shown; of more, the first ones."""

_JPEG_QUALITY: Final = 80
_LENGTH: Final = struct.Struct(">I")


def pack(content: dict[str, Any], picture: bytes = b"") -> bytes:
    """Return a message for the browser: the length of the JSON text, the text, and a JPEG."""
    text = msgspec.json.encode(content)
    return _LENGTH.pack(len(text)) + text + picture


def picture_of(message: bytes) -> bytes:
    """Return the JPEG of a message of `pack`; empty if it has none."""
    [length] = _LENGTH.unpack_from(message)
    return message[_LENGTH.size + length :]


def is_own_environment(env_id: str) -> bool:
    """Return whether soulslab registers an environment, so that its features and actions are known."""
    return env_id.startswith("soulslab/")


def duel_action_names(env_id: str) -> tuple[str, ...]:
    """Return the names of the actions in soulslab's duels; empty for an environment of other people."""
    return ACTION_NAMES if is_own_environment(env_id) else ()


class SceneView:
    """Describes the decisions of one feed.

    Attributes:
        problem: Why the boss of a simulated fight cannot be drawn; None if it can, or if there is none.
    """

    def __init__(self, info: FeedInfo) -> None:
        """Read the boss of a simulated fight; without its file only the numbers are shown."""
        self._info = info
        self.problem: BossFileError | None = None
        self._opponent: tuple[Boss, Record] | None = None
        rules = info.scene.get("rules", b"")
        if len(rules) == FIGHT.itemsize:
            try:
                boss = find_boss(info.scene["boss"].decode())
            except BossFileError as error:
                self.problem = error
            else:
                self._opponent = boss, np.frombuffer(rules, FIGHT).copy()[0]
        self._player_animations = list(load_knight().animations)

    def info(self) -> dict[str, Any]:
        """Return the constants of the feed: its id, the names of actions and features, and the groups of features."""
        names = self._info.action_names or duel_action_names(self._info.env_id)
        if len(names) != self._info.n_actions:
            names = tuple(map(str, range(self._info.n_actions)))
        return {
            "type": "info",
            "feed": self._info.feed_id,
            "env": self._info.env_id,
            "boss": self._opponent[0].name if self._opponent is not None else "",
            "actions": names,
            "features": self._info.feature_names,
            "groups": feature_groups(self._info.feature_names),
        }

    def describe(self, moment: Moment) -> dict[str, Any]:
        """Return a decision as numbers for the browser."""
        scores = np.frombuffer(moment.scores, np.float32)
        mask = np.frombuffer(moment.mask, np.uint8)
        return {
            "type": "moment",
            "fight": moment.fight,
            "decision": moment.decision,
            "wall_ms": round(1000.0 * moment.wall_s),
            "action": moment.action,
            "reward": _number(moment.reward),
            "total": _number(moment.total, 6),
            "kind": moment.kind,
            "mask": mask.tolist(),
            "scores": _numbers(scores),
            "quantiles": _quantiles(moment, scores, mask),
            "value": _number(moment.value) if moment.value is not None else None,
            "hidden": [list(layer[:N_HIDDEN]) for layer in moment.hidden],
            "features": _numbers(np.frombuffer(moment.features, np.float32)),
            "attribution": _numbers(np.frombuffer(moment.attribution, np.float32)),
            "vitals": self._vitals(moment),
            "late_ms": _number(1000.0 * moment.late_s),
        }

    def picture(self, moment: Moment) -> bytes:
        """Return the picture of a decision as a JPEG; empty if there is none."""
        duel = moment.scene.get("duel", b"")
        opponent = self._opponent_of(moment)
        if opponent is None or len(duel) != DUEL.itemsize:
            return moment.picture
        boss, rules = opponent
        drawn = draw_duel(boss, rules, np.frombuffer(duel, DUEL)[0], height_px=PICTURE_HEIGHT_PX, has_hud=False)
        is_encoded, data = cv2.imencode(".jpg", drawn[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        return data.tobytes() if is_encoded else b""

    def _vitals(self, moment: Moment) -> dict[str, Any]:
        """Return health, stamina, animations and the distance; empty if the environment is not a duel."""
        raw = moment.scene.get("state", b"")
        if len(raw) != DUEL_STATE.itemsize:
            return self._vitals_of_features(moment)
        state = np.frombuffer(raw, DUEL_STATE)[0]
        (px, py, *_), (bx, by, *_) = state["player_pose"].tolist(), state["boss_pose"].tolist()
        return {
            **{name: _number(float(state[name])) for name in ("player_hp", "player_sp", "boss_hp")},
            **{name: float(state[name]) for name in ("player_max_hp", "player_max_sp", "boss_max_hp")},
            "phase": int(state["phase"]),
            "distance_m": round(math.hypot(px - bx, py - by), 2),
            "player_animation": _name(self._player_animations, int(state["player_animation"])),
            "player_s": round(float(state["player_animation_duration"]), 2),
            "boss_animation": self._boss_move(moment) or _name(BOSS_ANIMATIONS, int(state["boss_animation"])),
            "boss_s": round(float(state["boss_animation_duration"]), 2),
        }

    def _vitals_of_features(self, moment: Moment) -> dict[str, Any]:
        """Return health, stamina and animations from features of a duel, in % of the full values; else empty."""
        names = self._info.feature_names
        if not {"player_hp", "player_sp", "boss_hp"} <= set(names):
            return {}
        values = dict(zip(names, np.frombuffer(moment.features, np.float32).tolist(), strict=False))
        return {
            **{name: _number(100.0 * values[name]) for name in ("player_hp", "player_sp", "boss_hp")},
            **dict.fromkeys(("player_max_hp", "player_max_sp", "boss_max_hp"), 100.0),
            **{f"{who}_animation": _chosen(values, f"{who}_animation=") for who in ("player", "boss")},
        }

    def _boss_move(self, moment: Moment) -> str:
        """Return the boss's attack and its stage in a simulated fight; "" without an attack."""
        duel = moment.scene.get("duel", b"")
        opponent = self._opponent_of(moment)
        if opponent is None or len(duel) != DUEL.itemsize:
            return ""
        boss, rules = opponent
        record = np.frombuffer(duel, DUEL)[0]
        blow = blow_of(record, rules)
        return f"{boss.moves[record.b_move].id.replace('_', ' ')}, {blow.stage}" if blow is not None else ""

    def _opponent_of(self, moment: Moment) -> tuple[Boss, Record] | None:
        """Return the boss of a decision and the rules against it; None if they are unknown."""
        boss = moment.scene.get("boss")
        return _generated_opponent(boss.decode()) if boss is not None else self._opponent


@lru_cache(maxsize=16)
def _generated_opponent(name: str) -> tuple[Boss, Record]:
    boss = find_boss(name)
    return boss, fight_table(boss, load_knight())[0]


def feature_groups(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return consecutive features that belong together: name of the group, first and last index + 1.

    One-hot features ``a=x`` belong to the group ``a``, all others to the part before their first underscore, such as
    ``player``. The name of a small group lists its features: ``player x, y, z``.
    """
    groups = []
    for name, members in groupby(range(len(names)), key=lambda i: _group(names[i])):
        index = list(members)
        parts = [names[i].removeprefix(f"{name}_") for i in index]
        title = f"{name} {', '.join(parts)}" if "=" not in names[index[0]] and parts[0] != name else name
        groups.append((title.replace("_", " "), index[0], index[-1] + 1))
    return groups


def _group(name: str) -> str:
    base, equals, _ = name.partition("=")
    return base if equals else name.partition("_")[0]


def _quantiles(moment: Moment, scores: NDArray[np.float32], mask: NDArray[np.uint8]) -> list[dict[str, Any]]:
    """Return the quantiles of the best allowed actions, the best one first."""
    if not moment.quantiles:
        return []
    found = np.frombuffer(moment.quantiles, np.float32).reshape(len(scores), -1)
    order = [i for i in np.argsort(-scores, kind="stable").tolist() if mask[i]][:N_QUANTILE_ACTIONS]
    return [{"action": i, "values": _numbers(np.sort(found[i]))} for i in order]


def state_scene(observation: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the scene of a Dict observation with the fields of a `DUEL_STATE`; empty for other observations."""
    fields = [field.name for field in DUEL_FIELDS]
    if not set(fields) <= observation.keys():
        return {}
    state = np.zeros(1, DUEL_STATE)
    for name in fields:
        state[name][0] = np.reshape(observation[name], state[name].shape[1:])
    return {"state": state.tobytes()}


def _chosen(values: Mapping[str, float], prefix: str) -> str:
    """Return the name of the one-hot feature that is set; "unknown" for none."""
    names = (name for name, value in values.items() if name.startswith(prefix) and value > 0.5)
    return next(names, f"{prefix}unknown").removeprefix(prefix)


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else "unknown"


def _number(value: float, n_digits: int = 4) -> float | None:
    """Return a number with this many significant digits; None if it is not finite, which JSON cannot hold."""
    return float(f"{value:.{n_digits}g}") if math.isfinite(value) else None


def _numbers(values: NDArray[np.float32]) -> list[float | None]:
    return [_number(value) for value in values.tolist()]
