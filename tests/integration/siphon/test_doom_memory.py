"""The memory of Chocolate Doom, an unmodified program."""

import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from soulslab.errors import (
    ImageError,
    ImplausibleValueError,
    PatternError,
    PointerError,
    ProcessExitedError,
    SiphonError,
)
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.discovery import executable_of, find_process, refuse_anti_cheat
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import Attribute, Base, Process, Profile
from support.waiting import wait_for

DOOM = Path("/usr/games/chocolate-doom")
WAD = Path("/usr/share/games/doom/freedoom1.wad")
LOADING = (PatternError, PointerError, ImplausibleValueError, ImageError)


def of_player(offsets: tuple[int, ...], kind: str, **facts: object) -> Attribute:
    return Attribute(base="players", offsets=offsets, type=kind, source="d_player.h, p_mobj.h", **facts)  # type: ignore[arg-type]


PROFILE = Profile(
    name="Doom",
    process=Process(executable="chocolate-doom"),
    bases={
        "players": Base(
            pattern="48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8", displacement_at=3, instruction_end=7, source="measured"
        )
    },
    attributes={
        "health": of_player((0x2C,), "i32", range=(1, 200)),
        "bullets": of_player((0xA8,), "i32", range=(0, 400)),
        "body_health": of_player((0, 164), "i32", range=(1, 200)),
        "x": of_player((0, 24), "i32", scale=1 / 65536, range=(-32768, 32768)),
        "position": of_player((0, 24), "i32", length=3, scale=1 / 65536, range=(-32768, 32768)),
        "angle": of_player((0, 56), "u32", scale=math.tau / 2**32, range=(0, math.tau)),
    },
)


@pytest.fixture
def doom(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    quiet = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [DOOM, "-iwad", WAD, "-nosound", "-nogui", "-skill", "4", "-warp", "1", "1"]
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=quiet, cwd=tmp_path, stdin=null, stdout=null, stderr=null) as process:
        yield process
        process.kill()


def test_reads_and_writes_doom(doom: subprocess.Popen[bytes]):
    assert find_process(PROFILE.process, doom.pid) == doom.pid
    assert executable_of(doom.pid) == str(DOOM)
    refuse_anti_cheat(doom.pid, PROFILE.process)
    memory = LinuxMemory(doom.pid)
    table: list[AttributeTable] = []

    def has_begun() -> bool:
        try:
            image = read_image(memory, "chocolate-doom")
            table[:] = [AttributeTable(PROFILE, memory, resolve_addresses(PROFILE, memory, image))]
            return table[0].read_many()["health"] == 100
        except LOADING:
            return False

    wait_for(has_begun)
    found = table[0].read_many()
    assert (found["health"], found["body_health"], found["bullets"]) == (100, 100, 50)
    assert found["position"][0] == found["x"] != 0
    assert 0 <= found["angle"] < math.tau
    table[0].write({"health": 150, "body_health": 150, "bullets": 33})
    assert table[0].read_many(["health", "body_health", "bullets"]) == {
        "health": 150,
        "body_health": 150,
        "bullets": 33,
    }
    doom.kill()
    doom.wait()
    with pytest.raises(ProcessExitedError):
        table[0].read_many()
    memory.close()


def test_a_profile_of_another_game_does_not_fit(doom: subprocess.Popen[bytes]):
    memory = LinuxMemory(doom.pid)
    with pytest.raises(SiphonError, match=r"'lugaru.exe' is not loaded"):
        read_image(memory, "lugaru.exe")
    memory.close()
