"""A game as data: where its values lie in memory, which keys it listens to, how its time can be controlled.

::

    profile = load_profile(Path("my_game.toml"))
    profile.attributes["player.hp"].range   # (0.0, 1500.0)

An address is found like this. A *base* is a place in the executable: a byte pattern with the operand it holds, or a
module with an offset. An attribute starts at its base (or at its entity) and follows ``offsets``: each but the last is
added and the 8-byte pointer there is followed; the last is only added. An offset that the game's own code holds stands
in its place by name (`CodeOffset`).

Where public facts disagree about a value, an attribute has `alternatives`; which of them holds shows in the game.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

Value: TypeAlias = Any
"""int, float, bool, str, bytes, or an ndarray of float64 for vectors (see `Attribute.type`, `length`, `scale`)."""

NumberType: TypeAlias = Literal["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"]
ValueType: TypeAlias = NumberType | Literal["bool", "flag", "bytes", "utf8", "utf16"]
ClockGrade: TypeAlias = Literal["lockstep", "scaled", "realtime"]
Boundary: TypeAlias = Literal["auto", "frame", "idle", "sleep"]
InputBackend: TypeAlias = Literal["auto", "xtest", "xsendevent"]

CodeNumberType: TypeAlias = Literal["u8", "i8", "u32", "i32"]

Offset: TypeAlias = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Offsets: TypeAlias = Annotated[tuple[Offset | str, ...], Meta(min_length=1)]
"""Numbers, and names of code offsets (`soulslab.siphon.profile.facts.numbers` where all names have become numbers)."""

#: From the type of a number to its code in `struct`; numpy's dtypes bear the same codes.
NUMBER_CODES = {
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "f32": "f",
    "f64": "d",
}


class Process(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to recognise the game, and how to start it.

    Attributes:
        executable: File name of the program: ``eldenring.exe``. Compared without its folder.
        window_title: Text that the title of its window contains; "" for any window of the process.
        versions: Known versions of the executable (PE version resource); empty where none is checked.
        anti_cheat: Further names of processes or modules in whose presence the game is refused.
        command: The command line that starts it; empty if soulslab cannot. ``{name}`` is filled in from `options`.
        environment: Variables that it is started with; also filled in.
        directory: Folder that it is started in; "" for a new, empty one.
        options: Names in `command` and `environment` with their defaults, as ``skill = "4"``.
    """

    executable: Annotated[str, Meta(min_length=1)]
    window_title: str = ""
    versions: tuple[str, ...] = ()
    anti_cheat: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    directory: str = ""
    options: dict[str, str] = {}


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A place in the executable: either `pattern` (with an operand) or `offset` from a module.

    Attributes:
        pattern: Hex bytes, ``??`` for any byte, ``4?`` and ``?8`` for any half of one.
        displacement_at: Position in the pattern, from 0, of a signed 32-bit displacement; unset if the match is the
            place.
        instruction_end: Position where the instruction that holds the displacement ends: the displacement counts
            from there. Needed with `displacement_at`; it is not always displacement_at + 4, as an immediate may follow.
        pick: Which of several matches to take, from 0, in ascending order; unset if there must be exactly one.
        module: Module that `offset` counts from; "" for the executable itself.
        offset: Bytes from the module's base, instead of a pattern.
        adjust: Added to the place that was found.
        is_pointer: The 8-byte pointer stored at the place is followed.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`.
        source: Where the fact comes from.
    """

    pattern: str = ""
    displacement_at: Annotated[int, Meta(ge=0)] | None = None
    instruction_end: Annotated[int, Meta(ge=0)] | None = None
    pick: Annotated[int, Meta(ge=0)] | None = None
    module: str = ""
    offset: Offset | None = None
    adjust: Offset = 0
    is_pointer: bool = False
    versions: tuple[str, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class CodeOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An offset that the game's own code holds, so that it is right in each version; used by its name.

    Attributes:
        pattern: Of the code around it, as in a base.
        at: Position in the pattern, from 0, of the number.
        type: Of the number. The processor takes it with a sign; few offsets have one.
        adjust: Added to the number: how far from it the wanted field lies.
        pick: Which of several matches to take, from 0, in ascending order; unset if there must be exactly one.
        range: Least and greatest plausible offset (after `adjust`), both included. One outside is an error: the
            pattern matched other code.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`.
        source: Where the fact comes from.
    """

    pattern: Annotated[str, Meta(min_length=1)]
    at: Annotated[int, Meta(ge=0)]
    type: CodeNumberType = "u32"
    adjust: Offset = 0
    pick: Annotated[int, Meta(ge=0)] | None = None
    range: tuple[int, int]
    versions: tuple[str, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class ListPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another public fact about where the list of an entity lies.

    Attributes:
        begin: Offsets to the cell that holds the address of the first pointer of the list, from the entity's base.
        end: Offsets to the cell that holds the address behind its last pointer.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`, whatever the
            entity itself says.
        source: Where the fact comes from.
    """

    begin: Annotated[tuple[Offset, ...], Meta(min_length=1)]
    end: Annotated[tuple[Offset, ...], Meta(min_length=1)]
    versions: tuple[str, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class Entity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One object of a list of pointers, found by the id that it carries.

    Attributes:
        base: Where the chain to the list starts.
        begin: Offsets to the cell that holds the address of the first pointer of the list.
        end: Offsets to the cell that holds the address behind its last pointer.
        stride: Bytes from one pointer of the list to the next.
        id_offsets: Offsets from an object to its id, as in an attribute.
        id_type: Type of the id.
        id: The id to find.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`.
        alternatives: Other public facts about where the list lies, tried in order after the entity's own: the first
            list that has the entity holds for the session.
        source: Where the fact comes from.
    """

    base: str
    begin: Offsets
    end: Offsets
    stride: Annotated[int, Meta(ge=8, le=4096)] = 8
    id_offsets: Offsets
    id_type: NumberType = "u32"
    id: int
    versions: tuple[str, ...] = ()
    alternatives: tuple[ListPlace, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class Alternative(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another public fact about the same value; what it leaves out is as the attribute itself says.

    Attributes:
        base: Name of the base that it starts from, instead of the attribute's own start.
        entity: Name of the entity that it starts from, instead of the attribute's own start.
        offsets: The way to the value.
        type: Of the stored value; it has to give the same kind of value.
        bit: Which bit of the byte is the flag.
        scale: What is stored times this is the value.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`, whatever the
            attribute itself says.
        source: Where the fact comes from.
    """

    base: str = ""
    entity: str = ""
    offsets: Offsets | None = None
    type: ValueType | None = None
    bit: Annotated[int, Meta(ge=0, le=7)] | None = None
    scale: float | None = None
    versions: tuple[str, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class Attribute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value in the game's memory.

    Attributes:
        base: Name of the base that it starts from; "" if it starts from an entity.
        entity: Name of the entity that it starts from; "" if it starts from a base.
        offsets: The way to the value: each but the last is added, and the 8-byte pointer there is followed; the last
            is only added.
        type: Of the value. ``flag`` is one bit of a byte (`bit`), read as bool. ``utf8`` and ``utf16`` end at the
            first zero character or at `length`.
        length: Bytes of ``bytes``, ``utf8`` and ``utf16``; for numbers above 1, a vector of so many of them.
        bit: Which bit of the byte is the flag, from 0, the lowest.
        scale: What is stored times this is the value: 1/65536 for 16.16 fixed point. Not 1 makes the value a float.
        unit: ``hp``, ``m``, ``rad``, ``s``, ...; "" for a pure number.
        range: Least and most plausible value (after `scale`), both included. A value outside it is an error, and so is
            writing one. Needed for numbers.
        is_writable: Whether `write` may change it.
        is_moving: It changes within a second of play, as time does; a self-check notices where it does not.
        is_holding: It stays as it is during play, as a maximum does; a self-check notices where it does not.
        versions: Versions of the executable for which it is known; empty for all of `Process.versions`.
        alternatives: Other public facts about the same value, tried in order after the attribute's own: the first that
            can be read and gives a plausible value holds for the session.
        source: Where the fact comes from.
    """

    base: str = ""
    entity: str = ""
    offsets: Offsets
    type: ValueType
    length: Annotated[int, Meta(ge=1, le=65536)] = 1
    bit: Annotated[int, Meta(ge=0, le=7)] = 0
    scale: float = 1.0
    unit: str = ""
    range: tuple[float, float] | None = None
    is_writable: bool = True
    is_moving: bool = False
    is_holding: bool = False
    versions: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class ClockFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How this game's time can be controlled.

    Attributes:
        grade: The best grade that is known to work.
        tick_hz: Simulation steps per second of game time, if the game has such; 0 if not. `Clock.advance` lets the
            game do one at a time, as many games drop time when they have to catch up.
        catch_up_s: Game time that the game makes up for at once without dropping any of it; `Clock.advance` goes on in
            steps of that length, so that the game need not draw each tick. 0: one tick at a time.
        tick_attribute: Integer attribute that grows by one with each step of the simulation; "" if none is known.
        boundary: Where a lockstep game is held that never sleeps (docs/clock.md). ``auto``: after each closed cycle of
            its loop. ``frame``: at the first look for events after it has drawn. ``idle``: after several cycles without
            a change. ``sleep``: only where it sleeps.
        spin_reads: A thread that reads the time so often at one place, and does nothing else, waits for time.
        speed_attribute: Float attribute that scales game time (grade ``scaled``); "" if none.
        game_time_attribute: Attribute with the game's own time; "" if none.
        game_time_s: Seconds that one unit of `game_time_attribute` stands for.
        frame_rate_hz: Frames that the game draws per second at its own speed; 0 if it is not known, and then no speed
            is refused for its frames.
        frame_rate_attribute: Number that caps the frames per second, and is raised with the speed; "" if none is known.
        frame_rate_flag: What puts that cap in force; "" where nothing has to.
        frame_time_attribute: Number with the game time of the last frame in seconds; "" if none is known.
        max_frame_s: The most game time that a frame may hold.
    """

    grade: ClockGrade = "realtime"
    tick_hz: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    catch_up_s: Annotated[float, Meta(ge=0, le=10)] = 0.0
    tick_attribute: str = ""
    boundary: Boundary = "auto"
    spin_reads: Annotated[int, Meta(ge=2, le=1_000_000)] = 1000
    speed_attribute: str = ""
    game_time_attribute: str = ""
    game_time_s: Annotated[float, Meta(gt=0)] = 1.0
    frame_rate_hz: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    frame_rate_attribute: str = ""
    frame_rate_flag: str = ""
    frame_time_attribute: str = ""
    max_frame_s: Annotated[float, Meta(gt=0, le=1)] = 1 / 30

    @property
    def step_hz(self) -> float:
        """Steps per second of game time that `Clock.advance` makes; 0 if nothing is known."""
        return 1.0 / self.catch_up_s if self.catch_up_s else self.tick_hz


class InputFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the game takes keys.

    Attributes:
        backend: ``xtest`` reaches the focused window only; ``xsendevent`` any window whose program accepts sent
            events; ``auto`` picks what reaches this one.
    """

    backend: InputBackend = "auto"


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A game as data.

    Attributes:
        format: Version of this format.
        name: Of the game.
        process: How to recognise it.
        bases: Places in the executable.
        code_offsets: Offsets that its code holds, by the names that stand for them.
        entities: Objects found by their id.
        attributes: Values, by name.
        keys: From the name of an action to the physical key that does it: ``roll = "SPACE"``.
        clock: How its time can be controlled.
        input: How it takes keys.
        duel: Which attributes make a boss duel (`soulslab.arena.binding`); the bridge does not look into it.
        env: What `soulslab.envs` makes of it; the bridge does not look into it either.
    """

    format: Literal[1] = 1
    name: Annotated[str, Meta(min_length=1)]
    process: Process
    bases: dict[str, Base] = {}
    code_offsets: dict[str, CodeOffset] = {}
    entities: dict[str, Entity] = {}
    attributes: dict[str, Attribute] = {}
    keys: dict[str, str] = {}
    clock: ClockFacts = ClockFacts()
    input: InputFacts = InputFacts()
    duel: dict[str, Any] | None = None
    env: dict[str, Any] | None = None
