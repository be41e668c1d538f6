"""A session with the built-in fight in the memory of this process, in the layout of a real game's profile.

All attributes are read and written through the bridge, as in a real game; only the process and the window are missing.
"""

from __future__ import annotations

import os
import struct

from soulslab.arena.window.memory.profile_memory import ProfileMemory
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.local import LocalSession
from soulslab.siphon.memory.opening import open_memory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import PID, WINDOW_PX, FakeArena
from soulslab.testing.fake_game import FakeGame, FakeOpener, fake_info


class MaskedArena(FakeArena):
    """The fight; it is written to memory after each advance.

    Attributes:
        process: Memory of this process, as read by the bridge.
        places: Addresses of the bases and code offsets of the profile.
        table: Attributes in the memory.
        on_advance: Called after each advance, before the fight is written to memory; simulates events of the game.
    """

    def __init__(self, profile, options):
        super().__init__(profile, options)
        self._mapped = ProfileMemory(profile, self.binding, self.fight)
        self._mapped.publish(self.fight)
        self.process = open_memory(os.getpid())
        image = read_image(self.process, profile.process.executable)
        self.places = resolve_addresses(profile, self.process, image)
        self.table = AttributeTable(profile, self.process, self.places)
        self.on_advance = lambda: None

    def pass_time(self, seconds):
        """Apply written values, advance the fight, and write it to memory."""
        self._mapped.apply_writes(self.fight)
        super().pass_time(seconds)
        self.on_advance()
        self._mapped.publish(self.fight)

    def put(self, name, value):
        """Write an attribute as the game does, even if it is not writable."""
        attribute, address = self.profile.attributes[name], self.table.address_of(name)
        data = Codec(name, attribute).encode(value)
        if attribute.type == "flag":
            bit, old = 1 << attribute.bit, self.process.read(address, 1)[0]
            data = struct.pack("B", old | bit if value else old & ~bit)
        self.process.write(address, data)

    def close(self):
        """Unmap the memory."""
        self.process.close()
        self._mapped.close()


class MaskedSession(LocalSession):
    """A session with the fight in the layout of a game.

    Attributes:
        arena: The game, for inspection and faults.
    """

    def __init__(self, path, options=None):
        super().__init__(load_profile(path), options or SessionOptions(), FakeOpener(self._start))

    def _start(self, profile, options):
        self.arena = MaskedArena(profile, {**profile.process.options, **options.options})
        info = fake_info(PID, profile.process.executable, WINDOW_PX, options)
        return FakeGame(self.arena, self.arena.table, options, info)

    def close(self):
        """Close the session, then unmap the game."""
        super().close()
        self.arena.close()
