"""Keys and the scanner on Chocolate Doom, an unmodified program."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import which

import soulslab.games.doom
from soulslab.errors import ImplausibleValueError, PointerError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.input.x_input import open_input
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.process.window import wait_for_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from soulslab.siphon.scanner.conditions import Condition
from soulslab.siphon.scanner.entry import Found, add_entry, edit_profile
from soulslab.siphon.scanner.pointers import PointerMap, modules_of, verify
from soulslab.siphon.scanner.signature import find_signature
from soulslab.siphon.scanner.value_scan import ValueScan
from support.launching import launch
from support.waiting import PATIENCE_S, wait_for

DOOM = load_profile(Path(soulslab.games.doom.__file__).with_name("profile.toml"))
FULL_HEALTH = 100


class Doom:
    """A running game: memory, values, and window."""

    def __init__(self, display, undo):
        process = launch(DOOM.process, display=display.name, extra_environment=display.environment())
        undo.callback(process.kill)
        self.memory = LinuxMemory(process.pid)
        undo.callback(self.memory.close)
        x = XConnection(display.name)
        undo.callback(x.close)
        self.window = wait_for_window(x, process.pid, deadline_s=PATIENCE_S)
        self.image = read_image(self.memory, DOOM.process.executable)
        places = resolve_addresses(DOOM, self.memory, self.image)
        self.values = AttributeTable(DOOM, self.memory, places)
        wait_for(self.is_in_level, "the level")

    def is_in_level(self):
        try:
            return self.values.read("level_time") > 0 and self.values.read("health") == FULL_HEALTH
        except (PointerError, ImplausibleValueError):
            return False

    def hurt(self, health):
        """Set the health of the player and of its object in the world."""
        self.values.write({"health": health, "body_health": health})

    @contextmanager
    def standing(self):
        """Stop the process, so that monsters do not change the values."""
        os.kill(self.memory.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.memory.pid, signal.SIGCONT)

    def is_in_program(self, address):
        return self.image.base <= address < self.image.base + self.image.size

    def place(self):
        return self.values.read("x"), self.values.read("y")


@contextmanager
def running_doom(display):
    with ExitStack() as undo:
        yield Doom(display, undo)


def test_every_backend_moves_the_player_on_a_french_keyboard(display):
    """Doom binds physical keys: the key COMMA also strafes if it types a semicolon."""
    program = which("setxkbmap")
    assert program, "setxkbmap is not installed: apt-get install x11-xkb-utils"
    subprocess.run([program, "-display", display.name, "fr"], check=True, env=display.environment())
    with running_doom(display) as doom:
        for backend in ("xtest", "xsendevent"):
            keys = open_input(doom.window, backend, is_private=True)
            for key in ("UP_ARROW", "DOWN_ARROW", "COMMA"):  # forward, back, strafe left: a letter key by its place
                before = doom.place()
                keys.set_held([key])
                wait_for(lambda before=before: far_from(before, doom.place()), f"a step by {key} through {backend}")
            keys.close()


def far_from(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) > 8


def test_health_is_found_and_found_again_after_a_restart(display, tmp_path):
    with running_doom(display) as doom, doom.standing():
        scan = ValueScan(doom.memory, "i32")
        scan.first(Condition("exact", FULL_HEALTH))
        for health in (93, 88):
            doom.hurt(health)
            scan.narrow(Condition("exact", health))
        static, thing = sorted(
            (candidate.address for candidate in scan.candidates()), key=lambda place: not doom.is_in_program(place)
        )
        paths = PointerMap(doom.memory, modules_of(doom.memory, doom.image)).paths_to(thing)
        distance = static - doom.image.base
        signature = find_signature(doom.memory, doom.image, static)
    with running_doom(display) as again, again.standing():
        modules = modules_of(again.memory, again.image)
        again.hurt(77)
        scan = ValueScan(again.memory, "i32")
        scan.first(Condition("exact", 77))
        places = [candidate.address for candidate in scan.candidates(100_000)]
        assert again.image.base + distance in places
        left = [path for place in places for path in verify(paths, again.memory, modules, place)]
        assert left, "no path survived"
        (static_path,) = PointerMap(again.memory, modules).paths_to(again.image.base + distance)
        file = tmp_path / "doom.toml"
        file.write_text('name = "Doom"\n\n[process]\nexecutable = "chocolate-doom"\n')
        facts = {"type": "i32", "range": (0, 200), "source": "a test"}
        with edit_profile(file, DOOM) as document:
            add_entry(document, Found(name="body.health", path=min(left), **facts))
            add_entry(document, Found(name="health", path=static_path, signature=signature, **facts))
        profile = load_profile(file)
        values = AttributeTable(profile, again.memory, resolve_addresses(profile, again.memory, again.image))
        assert values.read_many(None) == {"health": 77, "body.health": 77}
