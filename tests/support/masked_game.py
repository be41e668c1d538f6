"""The built-in fight in the memory of this very process, laid out as a real game's profile says, as a session.

All that a real game would answer is read and written through the bridge; only the process and the window are left out.
"""

from __future__ import annotations

import os
import struct

from soulslab.arena.window.memory.profile_memory import ProfileMemory
from soulslab.games.arena.fake import PID, WINDOW_PX, FakeArena
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.fake_game import FakeGame, FakeOpener, fake_info
from soulslab.siphon.local import LocalSession
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions


class MaskedArena(FakeArena):
    """The fight, published to memory after each advance.

    Attributes:
        process: This process's memory, as the bridge sees it.
        table: The attributes in it.
        on_advance: Called after each advance, before the fight is published: what a game would do by itself.
    """

    def __init__(self, profile, options, folder):
        super().__init__(profile, options)
        self._mapped = ProfileMemory(profile, self.binding, self.fight, folder)
        self._mapped.publish(self.fight)
        self.process = LinuxMemory(os.getpid())
        image = read_image(self.process, profile.process.executable)
        self.table = AttributeTable(profile, self.process, resolve_addresses(profile, self.process, image))
        self.on_advance = lambda: None

    def pass_time(self, seconds):
        """Take what was written, play, and publish."""
        self._mapped.apply_writes(self.fight)
        super().pass_time(seconds)
        self.on_advance()
        self._mapped.publish(self.fight)

    def put(self, name, value):
        """Write an attribute as the game itself would, also one that only the game may write."""
        attribute, address = self.profile.attributes[name], self.table.address_of(name)
        data = Codec(name, attribute).encode(value)
        if attribute.type == "flag":
            bit, old = 1 << attribute.bit, self.process.read(address, 1)[0]
            data = struct.pack("B", old | bit if value else old & ~bit)
        self.process.write(address, data)

    def close(self):
        """Unmap it."""
        self.process.close()
        self._mapped.close()


class MaskedSession(LocalSession):
    """A session with the fight under the mask of a game.

    Attributes:
        arena: The game, to look into and to break.
    """

    def __init__(self, path, folder, options=None):
        self._folder = folder
        super().__init__(load_profile(path), options or SessionOptions(), FakeOpener(self._start))

    def _start(self, profile, options):
        self.arena = MaskedArena(profile, {**profile.process.options, **options.options}, self._folder)
        info = fake_info(PID, profile.process.executable, WINDOW_PX, options)
        return FakeGame(self.arena, self.arena.table, options, info)

    def close(self):
        """Close the session, then unmap the game."""
        super().close()
        self.arena.close()
