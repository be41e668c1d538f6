"""Schema of profiles: where a game's values lie in memory, its keys, and how its time can be controlled.

Addresses are found as follows. A *base* is a place in the executable: a byte pattern with an operand, or an offset from
a module. An attribute starts at its base or entity and follows ``offsets``: each but the last is added and the 8-byte
pointer there is followed; the last is only added. An offset that the game's code contains is referred to by name
(`CodeOffset`).

Where public sources disagree about a value, an attribute has `alternatives`; reading the game shows which one holds.
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
InputBackend: TypeAlias = Literal["auto", "xtest", "xsendevent", "pad"]

CodeNumberType: TypeAlias = Literal["u8", "i8", "u32", "i32"]

Offset: TypeAlias = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Offsets: TypeAlias = Annotated[tuple[Offset | str, ...], Meta(min_length=1)]
"""Numbers and names of code offsets; `soulslab.siphon.profile.facts.numbers` checks that no names remain."""

#: Format code of `struct` for each type of number; numpy's dtypes have the same codes.
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
    """How to recognise and start the game.

    Attributes:
        executable: File name of the program, as ``eldenring.exe``; its folder is ignored.
        window_title: Text that the title of its window contains; "" for any window of the process.
        versions: Known versions of the executable (PE version resource); empty for no check.
        anti_cheat: Names of further processes or modules in whose presence soulslab refuses to attach.
        command: Command line that starts the game; empty if soulslab cannot start it. ``{name}`` is filled in from
            `options`.
        environment: Environment variables of the game, filled in as `command`.
        directory: Working folder of the game; "" for a new, empty one.
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
    """A place in the executable: a `pattern` (with an operand), or an `offset` from a module.

    Attributes:
        pattern: Hex bytes; ``??`` for any byte, ``4?`` and ``?8`` for any half of one.
        displacement_at: Position in the pattern, from 0, of a signed 32-bit displacement; unset if the match itself is
            the place.
        instruction_end: Position in the pattern at which the instruction with the displacement ends; the displacement
            counts from there. Required with `displacement_at`; not always displacement_at + 4, because an immediate may
            follow.
        pick: Index of the match to use, in ascending order; unset if there must be exactly one match.
        module: Module that `offset` counts from; "" for the executable.
        offset: Bytes from the module's base, instead of a pattern.
        adjust: Number that is added to the place.
        is_pointer: Whether the 8-byte pointer stored at the place is followed.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`.
        source: Source of the fact.
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
    """An offset that the game's code contains, correct in every version; referred to by name.

    Attributes:
        pattern: Pattern of the code around the offset, as in a base.
        at: Position of the number in the pattern, from 0.
        type: Type of the number. The processor interprets it as signed; few offsets are negative.
        adjust: Number that is added to it: the distance to the required field.
        pick: Index of the match to use, in ascending order; unset if there must be exactly one match.
        range: Smallest and largest plausible offset (after `adjust`), both included. An offset outside is an error: the
            pattern has matched other code.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`.
        source: Source of the fact.
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
    """An alternative definition of the list of an entity.

    Attributes:
        begin: Offsets from the entity's base to the cell with the address of the first pointer of the list.
        end: Offsets to the cell with the address after its last pointer.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`, independent
            of the entity's own versions.
        source: Source of the fact.
    """

    begin: Annotated[tuple[Offset, ...], Meta(min_length=1)]
    end: Annotated[tuple[Offset, ...], Meta(min_length=1)]
    versions: tuple[str, ...] = ()
    source: Annotated[str, Meta(min_length=1)]


class Entity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An object in a list of pointers, identified by its id.

    Attributes:
        base: Base at which the chain to the list starts.
        begin: Offsets to the cell with the address of the first pointer of the list.
        end: Offsets to the cell with the address after its last pointer.
        stride: Bytes between the pointers of the list.
        id_offsets: Offsets from an object to its id, as in an attribute.
        id_type: Type of the id.
        id: Id of the entity.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`.
        alternatives: Alternative definitions of the list, tried in order after the entity's own: the first list that
            contains the entity is used for the session.
        source: Source of the fact.
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
    """An alternative definition of an attribute; unset fields are taken from the attribute.

    Attributes:
        base: Name of the base to start from, instead of the attribute's own start.
        entity: Name of the entity to start from, instead of the attribute's own start.
        offsets: Offsets of the pointer chain to the value.
        type: Type of the stored value; it must give the same kind of value as the attribute's type.
        bit: Bit of the byte that is the flag.
        scale: Factor from the stored number to the value.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`, independent
            of the attribute's own versions.
        source: Source of the fact.
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
        base: Name of the base to start from; "" to start from an entity.
        entity: Name of the entity to start from; "" to start from a base.
        offsets: Pointer chain to the value: each offset but the last is added and the 8-byte pointer there is followed;
            the last is only added.
        type: Type of the value. ``flag`` is one bit of a byte (`bit`), read as bool. ``utf8`` and ``utf16`` end at the
            first zero character or at `length`.
        length: Number of bytes of ``bytes``, ``utf8`` and ``utf16``; for numbers, more than 1 makes a vector of that
            length.
        bit: Bit of the byte that is the flag; 0 is the lowest.
        scale: Factor from the stored number to the value: 1/65536 for 16.16 fixed point. If not 1, the value is a
            float.
        unit: ``hp``, ``m``, ``rad``, ``s``, ...; "" for a pure number.
        range: Smallest and largest plausible value (after `scale`), both included. Reading or writing a value outside
            is an error. Required for numbers.
        is_writable: Whether `write` may change it.
        is_moving: Whether it changes within a second of play, as time does; a self-check reports it if it does not.
        is_holding: Whether it stays the same during play, as a maximum does; a self-check reports it if it does not.
        versions: Versions of the executable that the fact holds for; empty for all of `Process.versions`.
        alternatives: Alternative definitions of the same value, tried in order after the attribute's own: the first
            that can be read and gives a plausible value is used for the session.
        source: Source of the fact.
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
        grade: Best clock that is known to work.
        tick_hz: Simulation steps per second of game time; 0 if the game has none. `Clock.advance` lets the game run
            them one at a time, because many games drop time when they have to catch up.
        catch_up_s: Game time that the game catches up on without dropping any; `Clock.advance` advances in steps of
            that length, so that the game need not draw each tick. 0 for one tick at a time.
        tick_attribute: Integer attribute that grows by one with each simulation step; "" if unknown.
        boundary: Where the lockstep clock holds a game that never sleeps (docs/clock.md). ``auto``: after each complete
            cycle of its loop. ``frame``: at the first poll for events after a frame is drawn. ``idle``: after several
            cycles without a change. ``sleep``: only where it sleeps.
        spin_reads: Number of time reads at one place, without other work, after which a thread counts as waiting.
        speed_attribute: Float attribute that scales game time (grade ``scaled``); "" if none.
        game_time_attribute: Attribute with the game's own time; "" if none.
        game_time_s: Seconds per unit of `game_time_attribute`.
        frame_rate_hz: Frames per second that the game draws at its own speed; 0 if unknown, and then no speed is
            refused because of frames.
        frame_rate_attribute: Attribute that caps the frame rate and is raised with the speed; "" if unknown.
        frame_rate_flag: Attribute that enables the cap; "" if it is always enabled.
        frame_time_attribute: Attribute with the game time of the last frame in seconds; "" if unknown.
        max_frame_s: Longest game time of a frame that the game simulates correctly.
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
        """Steps per second of game time that `Clock.advance` makes; 0 if unknown."""
        return 1.0 / self.catch_up_s if self.catch_up_s else self.tick_hz


class InputFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the game receives keys.

    Attributes:
        backend: ``xtest`` reaches the focused window only; ``xsendevent`` any window whose program accepts sent events;
            ``auto`` selects one that reaches this game; ``pad`` connects a gamepad and sends the keys of
            `Profile.pad` by it.
    """

    backend: InputBackend = "auto"


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The description of a game as data.

    Attributes:
        format: Version of the profile format.
        name: Name of the game.
        process: How to recognise and start it.
        bases: Places in the executable, by name.
        code_offsets: Offsets that its code contains, by name.
        entities: Objects that are identified by their id, by name.
        attributes: Values in its memory, by name.
        keys: Physical key of each action: ``roll = "SPACE"``.
        pad: Control of a gamepad (`soulslab.siphon.pad.CONTROLS`) of actions that have a key as well: ``roll = "B"``.
        clock: How its time can be controlled.
        input: How it receives keys.
        duel: Attributes of a boss duel (`soulslab.arena.binding`); siphon does not interpret them.
        env: Settings of `soulslab.envs`; siphon does not interpret them.
    """

    format: Literal[1] = 1
    name: Annotated[str, Meta(min_length=1)]
    process: Process
    bases: dict[str, Base] = {}
    code_offsets: dict[str, CodeOffset] = {}
    entities: dict[str, Entity] = {}
    attributes: dict[str, Attribute] = {}
    keys: dict[str, str] = {}
    pad: dict[str, str] = {}
    clock: ClockFacts = ClockFacts()
    input: InputFacts = InputFacts()
    duel: dict[str, Any] | None = None
    env: dict[str, Any] | None = None
