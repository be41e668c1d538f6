"""Programs with the memory of Elden Ring and Dark Souls III: ``souls_program.c`` with the layout of a profile.

The code with the profile's patterns is a section of the program, at the addresses of the layout. The program writes all
other memory when it starts.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from soulslab.arena.window.memory.layout import PROGRAM, Layout, Place, synthesise
from soulslab.arena.window.memory.placement import PREFERRED_BASE
from soulslab.errors import MemoryAccessError
from soulslab.games.facts import GAMES
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.keys import KEYS
from soulslab.siphon.memory.opening import open_memory
from soulslab.siphon.profile import Profile, load_profile
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.session import Session, Snapshot
from support.waiting import wait_for

if TYPE_CHECKING:
    from support.wine import WindowsInstallation

SOURCE = Path(__file__).with_name("souls_program.c")
#: Environment variable with the compiled programs, for tests by a Python for Windows.
VARIABLE = "WINDOWS_SOULS"
NAMES = ("elden_ring", "dark_souls_3")
PROFILES: dict[str, Profile] = {name: load_profile(GAMES / name / "profile.toml") for name in NAMES}
COUNTERS_SIZE = 0x1000
#: Effects of the keys.
WALK_M_S, LIGHT_DAMAGE, HEAVY_DAMAGE = 3.0, 10, 25
#: Actions whose keys the program handles.
ACTIONS = ("forward", "light_attack", "heavy_attack", "lock_on")
#: Layout of XINPUT_GAMEPAD: buttons, left and right trigger, left stick, right stick.
_XINPUT_GAMEPAD = struct.Struct("<HBB4h")


def _control(*, button: int = 0, triggers: tuple[int, int] = (0, 0), sticks: tuple[int, ...] = (0, 0, 0, 0)) -> bytes:
    return _XINPUT_GAMEPAD.pack(button, *triggers, *sticks)


_BOTH = {
    "forward": _control(sticks=(0, 32767, 0, 0)),
    "left": _control(sticks=(-32767, 0, 0, 0)),
    "backward": _control(sticks=(0, -32767, 0, 0)),
    "right": _control(sticks=(32767, 0, 0, 0)),
    "roll": _control(button=0x2000),  # B
    "light_attack": _control(button=0x0200),  # right bumper
    "heavy_attack": _control(triggers=(0, 255)),
    "parry": _control(triggers=(255, 0)),
    "lock_on": _control(button=0x0080),  # right stick
    "use_item": _control(button=0x4000),  # X
}
#: The pad of each game as XINPUT_GAMEPAD by action, by default. The profiles, which name the same controls, are tested
#: with it, so it does not come from them.
PADS = {
    "elden_ring": _BOTH
    | {
        "jump": _control(button=0x1000),  # A
        "crouch": _control(button=0x0040),  # left stick
        "interact": _control(button=0x8000),  # Y
    },
    "dark_souls_3": _BOTH
    | {
        "interact": _control(button=0x1000),  # A
        "camera_up": _control(sticks=(0, 0, 0, 32767)),
        "camera_down": _control(sticks=(0, 0, 0, -32767)),
        "camera_left": _control(sticks=(0, 0, -32767, 0)),
        "camera_right": _control(sticks=(0, 0, 32767, 0)),
    },
}
#: Start values by quantity; all others are from the ranges of the profile.
START = {
    "player.hp": 400,
    "player.max_hp": 454,
    "player.sp": 90,
    "player.max_sp": 95,
    "player.position": [1.5, 0.25, -2.5],
    "player.block_position": [11.5, 0.25, 7.5],
    "player.angle": 0.5,
    "player.animation_length": 2.0,
    "boss.hp": 1000,
    "boss.max_hp": 1037,
    "boss.position": [3.5, 0.5, 8.0],
    "boss.angle": -1.5,
    "boss.animation_length": 3.0,
    "boss.attack_id": -1,
    "boss.next_attack_id": -1,
    "camera.position": [1.5, 2.0, -6.5],
    "camera.direction": [0.0, 0.0, 1.0],
    "game.speed": 1.0,
}
#: Attributes that the keys change, of either game.
IN_CONTROL = ("player.in_control_5", "player.in_control_6", "player.in_control_1", "player.in_control_16")


class SoulsProgram(msgspec.Struct, frozen=True):
    """A compiled program.

    Attributes:
        path: Path of the executable.
        counters_at: Offset of its frame counters from its base; they are in no profile.
    """

    path: Path
    counters_at: int


class Frames:
    """Frame counters of a running program.

    Args:
        one: The program.
        pid: Process of the program.
    """

    def __init__(self, one: SoulsProgram, pid: int) -> None:
        self._memory = open_memory(pid)
        self._at = PREFERRED_BASE + one.counters_at

    @property
    def n_begun(self) -> int:
        """Number of frames that have begun."""
        return self._counter(0)

    @property
    def n_done(self) -> int:
        """Number of frames that have ended."""
        return self._counter(1)

    @property
    def longest_s(self) -> float:
        """Duration of the longest frame since `forget_longest`."""
        return self._counter(2) * 1e-6

    @property
    def steam_app(self) -> int:
        """Number of the game in Steam, with which the program was started; 0 for none."""
        return self._counter(3)

    @property
    def is_in_its_folder(self) -> bool:
        """Whether the working folder of the program was its own folder."""
        return bool(self._counter(4))

    def n_presses(self, game: str) -> dict[str, int]:
        """Return the number of presses of each control of the game's pad by its action."""
        return {action: self._counter(5 + i) for i, action in enumerate(PADS[game])}

    def forget_longest(self) -> None:
        """Reset the longest frame."""
        self._memory.write(self._at + 8, bytes(4))

    def pass_by(self, n_frames: int = 2) -> None:
        """Wait until n more frames have begun; the last complete frame includes all earlier changes."""
        last = self.n_begun + n_frames
        wait_for(lambda: self.n_done >= last)

    def look(self, session: Session, names: tuple[str, ...]) -> Snapshot:
        """Read attributes between two frames, so that all belong to the same frame."""
        found: list[Snapshot] = []

        def is_whole() -> bool:
            before = self.n_done
            found.append(session.snapshot(names))
            return self.n_begun == before

        wait_for(is_whole)
        return found[-1]

    def close(self) -> None:
        """Close the memory of the process."""
        self._memory.close()

    def _counter(self, i: int) -> int:
        return int.from_bytes(self._memory.read(self._at + 4 * i, 4), "little")


def build(game: str, folder: Path) -> SoulsProgram:
    """Compile the program with the layout of a game's profile and the first version that it lists, in a new folder."""
    from support.wine import COMPILER, program  # noqa: PLC0415  (Linux only)

    folder.mkdir()
    profile = PROFILES[game]
    layout = synthesise(profile)
    ((code_at, code_end),) = layout.code_pages
    code = bytearray(code_end - code_at)
    pieces = []
    for place, data in layout.constants:
        if place.region == PROGRAM and code_at <= place.offset < code_end:
            code[place.offset - code_at : place.offset - code_at + len(data)] = data
        elif place != Place(PROGRAM, layout.resources[0]):
            pieces.append((place, data))
    (folder / "souls_code.bin").write_bytes(code)
    counters_at = layout.sizes[PROGRAM]
    (folder / "souls_code.S").write_text(
        _ASSEMBLY.format(world_size=counters_at - code_end, counters_size=COUNTERS_SIZE)
    )
    (folder / "souls_layout.h").write_text(_header(game, layout, [*pieces, *_start(profile, layout)]))
    version = profile.process.versions[0].replace(".", ",")
    (folder / "souls.rc").write_text(_RESOURCES.format(version=version))
    path = folder / profile.process.executable
    subprocess.run([program(f"{COMPILER}-windres"), "souls.rc", "resources.o"], cwd=folder, check=True)
    sections = {".code": code_at, ".world": code_end, ".text": counters_at + COUNTERS_SIZE}
    options = [f"-Wl,--section-start={name}={PREFERRED_BASE + at:#x}" for name, at in sections.items()]
    compiler = [
        program(f"{COMPILER}-gcc"),
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-mwindows",
        "-s",
        "-I.",
    ]
    sources = [str(SOURCE), "souls_code.S", "resources.o", "-lwinmm"]
    base = [f"-Wl,--image-base={PREFERRED_BASE:#x}", "-Wl,--disable-dynamicbase"]
    subprocess.run([*compiler, *base, *options, "-o", path.name, *sources], cwd=folder, check=True)
    return SoulsProgram(path, counters_at)


def compiled() -> dict[str, SoulsProgram]:
    """Return the programs that the tests have compiled for a Python for Windows, by game."""
    found = msgspec.json.decode(os.environ[VARIABLE], type=dict[str, tuple[str, int]])
    return {name: SoulsProgram(Path(path), counters_at) for name, (path, counters_at) in found.items()}


def changed(one: SoulsProgram, profile: Profile, folder: Path, *, version: str = "", without: str = "") -> SoulsProgram:
    """Return a copy of a program with changes, in a new folder.

    Args:
        one: The program.
        profile: Profile of its layout.
        folder: Folder for the copy.
        version: New version of its version resource; "" for no change.
        without: Base whose pattern is destroyed; "" for none.
    """
    data = bytearray(one.path.read_bytes())
    if version:
        major, minor, build_number, revision = map(int, version.split("."))
        at = data.index(struct.pack("<I", _VERSION_SIGNATURE))
        struct.pack_into("<4H", data, at + 8, minor, major, revision, build_number)
    if without:
        expression = Pattern.parse(profile.bases[without].pattern).expression
        matches = list(re.finditer(expression, bytes(data), re.DOTALL))
        assert matches
        for match in matches:
            data[match.start() : match.end()] = b"\xcc" * len(match[0])
    folder.mkdir()
    copy = msgspec.structs.replace(one, path=folder / one.path.name)
    copy.path.write_bytes(data)
    return copy


@contextmanager
def playing(windows: WindowsInstallation, one: SoulsProgram, display: str) -> Iterator[int]:
    """A context with the program, started without soulslab; yields its process once it draws frames."""
    from support.wine import program  # noqa: PLC0415  (Linux only)

    with subprocess.Popen(
        [program("wine"), str(one.path)],
        env=windows.environment(display),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            wait_for(lambda: plays(one, child.pid))
            yield child.pid
        finally:
            child.kill()


def plays(one: SoulsProgram, pid: int) -> bool:
    """Return whether the program is loaded and draws frames."""
    frames = Frames(one, pid)
    try:
        return frames.n_done > 0
    except MemoryAccessError:
        return False  # not mapped yet
    finally:
        frames.close()


#: Start of a version resource (VS_FIXEDFILEINFO of Windows).
_VERSION_SIGNATURE = 0xFEEF04BD
_ASSEMBLY = """\
.section .code,"xr"
.incbin "souls_code.bin"
.section .world,"bw"
.space {world_size:#x}
.globl souls_counters
souls_counters:
.space {counters_size:#x}
"""
_RESOURCES = """\
#include <windows.h>
VS_VERSION_INFO VERSIONINFO
FILEVERSION {version}
PRODUCTVERSION {version}
FILETYPE VFT_APP
BEGIN
END
"""


def _start(profile: Profile, layout: Layout) -> Iterator[tuple[Place, bytes]]:
    """Yield the start values of the fight."""
    duel = profile.duel or {}
    idle = {
        "player.animation": duel.get("player_animations", {}).get("Idle", "Idle"),
        "boss.animation": duel.get("boss_animations", {}).get("IdleBattle", "IdleBattle"),
    }
    for quantity, value in (START | idle).items():
        name = duel["attributes"].get(quantity)
        if name is not None:
            yield layout.places[name], Codec(name, layout.attributes[name]).encode(value)
    flags: dict[Place, int] = {}
    for name in IN_CONTROL:
        if name in layout.places:
            flags[layout.places[name]] = flags.get(layout.places[name], 0) | 1 << layout.attributes[name].bit
    yield from ((place, bytes([bits])) for place, bits in flags.items())


def _header(game: str, layout: Layout, pieces: list[tuple[Place, bytes]]) -> str:
    """Return the header file for the C program."""
    profile, pad = PROFILES[game], PADS[game]
    lines = [
        f'#define PROGRAM_NAME L"{profile.process.executable}"',
        f'#define WINDOW_TITLE L"{profile.process.window_title}"',
        f"#define LASTING_SIZE {layout.sizes[1]:#x}",
        f"#define FIGHT_SIZE {layout.sizes[2]:#x}",
        f"#define WALK_M_S {WALK_M_S}",
        f"#define LIGHT_DAMAGE {LIGHT_DAMAGE}",
        f"#define HEAVY_DAMAGE {HEAVY_DAMAGE}",
        *(f"#define KEY_{action.upper()} {KEYS[profile.keys[action]].virtual_key:#x}" for action in ACTIONS),
        f"enum {{ {', '.join(f'PAD_{action.upper()}' for action in pad)} }};",
    ]
    fight_pointers = set(layout.fight_pointers)
    moving = [(layout.places[name], one) for name, one in layout.attributes.items() if one.is_moving]
    tables = {
        "XINPUT_GAMEPAD controls": [", ".join(map(str, _XINPUT_GAMEPAD.unpack(state))) for state in pad.values()],
        "struct piece pieces": [f'{_at(place)}, {len(data)}, "{_text(data)}"' for place, data in pieces],
        "struct pointer pointers": [
            f"{_at(one.at)}, {_at(one.to)}, {int(one in fight_pointers)}" for one in layout.pointers
        ],
        "struct place places": [f'"{name}", {_at(place)}' for name, place in layout.places.items()],
        # The counter of whole milliseconds is the play time of the save, which does not depend on the speed.
        "struct moving movings": [
            f"{_at(place)}, {'SECONDS, 1' if one.type == 'f32' else 'MILLISECONDS, 0'}" for place, one in moving
        ],
    }
    for name, rows in tables.items():
        lines += [f"static const {name}[] = {{", *(f"    {{{row}}}," for row in rows), "};"]
    return "\n".join([*lines, ""])


def _at(place: Place) -> str:
    return f"{place.region}, {place.offset:#x}"


def _text(data: bytes) -> str:
    """Return bytes as a C string literal."""
    return "".join(f"\\{byte:03o}" for byte in data)
