"""Getting a real game to a fight: from its title, a loading screen, a bonfire, a death or a win, through the fog.

The states are those of docs/resets.md. Each is a condition with a deadline in game time, and is passed at once where it
holds already: a game that is in the fight is not touched.
"""

from __future__ import annotations

import contextlib
import math
import time

from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.entrance import Visit
from soulslab.envs.tasks.souls.character_keeper import CharacterKeeper, CharacterSettings
from soulslab.envs.tasks.souls.entrance_states import EntranceLimits, Way, named_state, refuse_stand_in
from soulslab.envs.tasks.souls.standstill_check import Standstill
from soulslab.errors import ResetFailedError, SelfCheckError, SiphonError
from soulslab.games.boss_facts import BossFacts
from soulslab.games.dark_souls_3 import DarkSouls3
from soulslab.games.elden_ring import EldenRing
from soulslab.games.self_check import needed_by
from soulslab.games.souls_game import SoulsGame
from soulslab.siphon.profile import Value
from soulslab.siphon.session import Session

#: The games that an entrance leads into, by the names of their folders.
GAMES: dict[str, type[SoulsGame]] = {"dark_souls_3": DarkSouls3, "elden_ring": EldenRing}
#: Without these there is no way.
NEEDED = ("poses.fog_wall", "defeat_flag", "warp_points")


class SoulsEntrance:
    """Gets Elden Ring or Dark Souls III to the fight with a boss (`soulslab.envs.tasks.duel.entrance.Entrance`).

    The only way out of a fight that goes on is the player's death, whatever `Visit.may_kill` says: what comes of it is
    a load, as of a restart of the game, only sooner.

    Args:
        facts: What is known of the boss.
        kind: The game; `GAMES` has them by name.
        reload_minutes: Wall time after which a fight is left for another load, as SoulsGym 1.1.0 does every 15 minutes
            because keys begin to lag; None for never.
        limits: Game time that the states may take.
        character: What is checked and kept of the player's character.

    Raises:
        MissingFactError: The place before the fog, the flag of the defeat or a bonfire is not known of the boss.
    """

    def __init__(
        self,
        facts: BossFacts,
        kind: type[SoulsGame],
        *,
        reload_minutes: float | None = 15.0,
        limits: EntranceLimits = EntranceLimits(),  # noqa: B008  (it is frozen)
        character: CharacterSettings = CharacterSettings(),  # noqa: B008  (it is frozen)
    ) -> None:
        facts.need(*NEEDED)
        self._facts = facts
        self._kind = kind
        self._reload_s = math.inf if reload_minutes is None else 60.0 * reload_minutes
        self._limits = limits
        self._game: SoulsGame | None = None
        # When the game last loaded on our way; until then, when we first saw it.
        self._loaded_at_s: float | None = None
        self._lock, self._standstill = LongLock(), Standstill()
        self._character = CharacterKeeper(character, facts)
        #: The start of the game in which all that is needed has passed the self-check.
        self._checked: tuple[int, int] | None = None

    def enter(self, game: DuelGame, visit: Visit) -> bool:
        """See `Entrance.enter`."""
        session = game.session
        refuse_stand_in(session.info.executable)
        if self._game is None or self._game.session is not session:
            self._game = self._kind(session)
        start = (session.info.pid, session.info.n_starts)
        is_unchecked = self._checked != start
        if self._loaded_at_s is None:
            self._loaded_at_s = time.monotonic()
        is_old = time.monotonic() - self._loaded_at_s > self._reload_s
        way = Way(self._facts, self._limits, self._game, visit)
        way.come_into_world()
        if is_unchecked:
            _check(self._game, (*_written(self._game, self._facts), *self._character.names(session.profile)))
        with named_state("character", "the player's character to be read"):
            self._character.begin(session)
        is_another = way.go(is_old=is_old)
        if is_unchecked:
            _check(self._game, needed_by(session.profile))
            with named_state("boss", "the game to stand at a speed of 0"):
                self._standstill.check(session)
        self._checked = start
        if is_another:
            self._loaded_at_s = time.monotonic()
        with named_state("boss", "the lock-on to reach across the arena"):
            self._lock.set(game.session)
        return is_another

    def leave(self, game: DuelGame) -> None:
        """See `Entrance.leave`: the lock-on, the flag for the speed, wear and play time are put back."""
        for change in (self._lock, self._standstill, self._character):
            if change.is_set:
                change.put_back(game.session)


def _check(game: SoulsGame, names: tuple[str, ...]) -> None:
    """Refuse attributes that fail the self-check; where there is no world any more, that is why, and no mistake."""
    try:
        AttributeGate(names)(game.session)
    except SelfCheckError as error:
        with named_state("check", "the player to be read"):
            if game.screen == "world" and game.player.hp > 0:
                raise
        raise ResetFailedError("the world to stay for a self-check", 0.0, state="check", saw=str(error)) from error


def _written(game: SoulsGame, facts: BossFacts) -> tuple[str, ...]:
    """Return the attributes that a way writes, but for those of a duel. Event flags are at no attribute."""
    of_player = (f"player.{name}" for name in ("hp", "position", "angle", "no_death", "no_gravity"))
    names = (*of_player, "camera.direction", "debug.no_death", game.last_rest, *facts.encounter, *WANTED)
    return tuple(name for name in names if name in game.session.profile.attributes)


#: The lock-on of Dark Souls III reaches 15 m, and an episode begins 19 m from Iudex. SoulsGym 1.1.0 makes that
#: 60 m, and has it last 99 s without a line of sight, which are else 2 s.
WANTED: dict[str, Value] = {"lock.bonus_range_m": 35.0, "lock.sight_time_s": 99.0}


class LongLock:
    """Has the lock-on reach further, and puts back how far it did; does nothing where the game does not tell it."""

    def __init__(self) -> None:
        self._before: dict[str, Value] = {}

    def set(self, session: Session) -> None:
        """Have it reach further. Raises as `Session.read` and `Session.write`."""
        wanted = {name: value for name, value in WANTED.items() if name in session.profile.attributes}
        if not wanted:
            return
        if not self._before:
            self._before = dict(session.snapshot(tuple(wanted)))
        session.write(wanted)

    @property
    def is_set(self) -> bool:
        """Whether something was changed."""
        return bool(self._before)

    def put_back(self, session: Session) -> None:
        """Put back what was changed, if something was; a game that loads has it as ever by itself."""
        before, self._before = self._before, {}
        if before:
            with contextlib.suppress(SiphonError):
                session.write(before)
