"""Random faults of a simulated Souls world, at any time before and in its fight.

A fault begins after some game time in a state of the world. It lasts for a while, or is a single event.
"""

import struct
from collections import Counter
from collections.abc import Callable

import msgspec

from soulslab.errors import ClockStalledError

#: Bases whose pointers may be null for some frames: all that are used in a fight.
NULLS = {
    "dark_souls_3": (
        "world", "enemies", "camera", "lock_target", "cutscene", "movie", "save", "game_man", "event_flags",
    ),
    "elden_ring": ("world", "field_area", "lock_target", "cutscene", "save", "game_man", "event_flags"),
}  # fmt: skip
#: Unknown animations, and animations of an attack.
UNKNOWN = {"dark_souls_3": "Pirouette", "elden_ring": 987_654}
ATTACK = {"dark_souls_3": "ThrowAtk", "elden_ring": 3000}
#: States before a fight, and in it and after it.
BEFORE, AFTER = ("title", "loading", "outside", "fog", "dead"), ("fight", "won")
#: Game time in a state before a fault, longest duration, and duration of an attack that outlasts a reset.
DELAY_S, LASTS_S, ENDLESS_S = 2.0, 3.0, 21.0


class Kind(msgspec.Struct, frozen=True):
    """A type of fault.

    Attributes:
        at: States of the world in which the fault is possible.
        begin: Begins the fault in the world.
        end: Ends the fault; None for a single event.
        lasts_s: Longest duration.
    """

    at: tuple[str, ...]
    begin: Callable
    end: Callable | None = None
    lasts_s: float = LASTS_S


def switch(name, value):
    """Return functions that begin and end a fault by setting an attribute of the world."""

    def begin(world):
        setattr(world, name, value)

    def end(world):
        setattr(world, name, not value)

    return begin, end


def show(player, boss):
    """Return functions that begin and end a fault in which animations are shown as others."""

    def begin(world):
        shown = {"player.animation": player, "boss.animation": boss}
        world.shown = {name: which[world.game] for name, which in shown.items() if which}

    def end(world):
        world.shown = {}

    return begin, end


def hurt(world, **values):
    """Write numbers of the fight."""
    for name, value in values.items():
        setattr(world.fight.duel, name, value)


def set_flags(world):
    """Set the event flags as after the fight."""
    world.flags.set(world.facts.defeat_flag, True)
    for name, value in world.facts.encounter.items():
        if name.startswith("flags."):
            world.put(name, not value if isinstance(value, bool) else 0)


def pass_by(world):
    """Change nothing in the world."""


def push(world):
    """Move the player away from its position."""
    world.fight.duel.p_x += 25.0


KINDS = {
    "death": Kind(("outside", "fight"), lambda world: hurt(world, p_hp=0.0)),
    "win": Kind(("fight",), lambda world: world.win()),
    "phase": Kind(("fight",), lambda world: hurt(world, b_hp=100.0)),
    "tired": Kind(("fight", "outside"), lambda world: hurt(world, p_sp=-15.0)),
    "pushed": Kind(("fight", "outside", "fog"), push),
    "load": Kind(("outside", "fog", "fight", "dead", "won"), lambda world: world.load()),
    "title": Kind(("outside", "fight", "won", "dead"), lambda world: world.leave()),
    "elsewhere": Kind(("outside", "fight", "dead"), lambda world: world.rest_elsewhere()),
    "flags": Kind(("title", "loading", "outside", "dead"), set_flags),
    "unlocked": Kind(("fight",), lambda world: setattr(world, "is_lock_lost", True)),
    "ended": Kind(BEFORE, lambda world: setattr(world, "is_alive", False)),
    "stalled": Kind(BEFORE, lambda world: setattr(world, "is_stalled", True)),
    "no boss": Kind(("fog", "fight"), *switch("has_boss", False)),
    "closed": Kind(("loading", "outside"), *switch("is_fog_open", False)),
    "forward": Kind(("loading", "outside"), *switch("needs_forward", True)),
    "deaf": Kind(("title", "outside", "fight"), *switch("is_deaf", True)),
    "unknown": Kind(("fight",), *show(UNKNOWN, UNKNOWN)),
    "attack": Kind(("fight",), *show(None, ATTACK), ENDLESS_S),
    "null": Kind(BEFORE + AFTER, pass_by, pass_by),  # `Faults` takes pointers, which the world must not miss
}


class Fault(msgspec.Struct, frozen=True):
    """A random fault.

    Attributes:
        kind: One of `KINDS`.
        at: State of the world in which it begins.
        delay_s: Game time in this state before it begins.
        lasts_s: Duration.
        base: Base whose pointer is null during the fault; "" for none.
    """

    kind: str
    at: str
    delay_s: float
    lasts_s: float
    base: str = ""


def draw(rng, game, kinds=tuple(KINDS)):
    """Return a random fault."""
    name = str(rng.choice(kinds))
    kind = KINDS[name]
    return Fault(
        name,
        str(rng.choice(kind.at)),
        round(float(rng.choice([0.0, rng.uniform(0.0, DELAY_S)])), 2),
        round(float(rng.uniform(0.1, kind.lasts_s)), 2),
        str(rng.choice(NULLS[game])) if name == "null" else "",
    )


class Faults:
    """Causes faults in each world that is started.

    Attributes:
        n_happened: Total number of faults of each type.
        present: Faults that began since the last `plan`.
    """

    def __init__(self):
        self.n_happened, self.present = Counter(), []
        self._world, self._play = None, None
        self._due, self._lasting = [], []
        self._at, self._since_s, self._passed_s = "", 0.0, 0.0
        self._nulls = {}

    def attach(self, world):
        """Attach to a start of the game (for `SoulsSession.arrange`)."""
        self._world, self._play, world.pass_time = world, world.pass_time, self._pass_time
        world.on_advance = self._live
        self._lasting, self._nulls = [], {}

    def plan(self, faults):
        """Replace the planned faults."""
        self._due, self.present = list(faults), []
        self._at = ""

    def end(self):
        """End all faults."""
        self._due = []
        self._put_back()
        for fault, _ in self._lasting:
            KINDS[fault.kind].end(self._world)
        self._lasting = []

    def _pass_time(self, seconds):
        world = self._world
        self._put_back()
        world.check_alive()
        if world.is_stalled:
            raise ClockStalledError("the made-up game does not get on", 0.0)
        self._passed_s = seconds * world.fight.speed
        self._play(seconds)
        self._take_pointers()

    def _live(self):
        """Begin and end faults, before their effects can be read."""
        passed_s, world = self._passed_s, self._world
        self._since_s = self._since_s + passed_s if world.at == self._at else 0.0
        self._at = world.at
        for entry in list(self._lasting):
            entry[1] -= passed_s
            if entry[1] <= 0.0:
                self._lasting.remove(entry)
                KINDS[entry[0].kind].end(world)
        for fault in list(self._due):
            if fault.at == self._at and self._since_s >= fault.delay_s:
                self._due.remove(fault)
                self.n_happened[fault.kind] += 1
                self.present.append(fault)
                KINDS[fault.kind].begin(world)
                if KINDS[fault.kind].end is not None:
                    self._lasting.append([fault, fault.lasts_s])

    def _take_pointers(self):
        """Set pointers to null as planned, after the world has been simulated."""
        for fault, _ in self._lasting:
            if fault.base:
                address = self._world.base(fault.base)
                self._nulls.setdefault(address, self._world.process.read(address, 8))
                self._world.process.write(address, struct.pack("<Q", 0))

    def _put_back(self):
        for address, pointer in self._nulls.items():
            self._world.process.write(address, pointer)
        self._nulls = {}
