"""The memory of the game's process in the layout of a profile: it publishes the fight and applies foreign writes."""

from __future__ import annotations

import ctypes
import logging
import struct
import sys
from contextlib import ExitStack
from typing import cast

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.memory.layout import FIGHT, LASTING, PROGRAM, Starts, synthesise
from soulslab.arena.window.memory.packing import Packing
from soulslab.arena.window.memory.resolved_profile import VariantChoice
from soulslab.arena.window.plain_records import FightView
from soulslab.errors import ImplausibleValueError, InvalidValueError
from soulslab.siphon.profile import Profile

if sys.platform == "win32":
    from soulslab.arena.window.memory.windows import Mapping, map_heap, map_program, set_process_name
else:
    from soulslab.arena.window.memory.linux import Mapping, map_heap, map_program, set_process_name

__all__ = ["FREED_BYTE", "ProfileMemory", "set_process_name"]

#: Fill byte of the objects of past fights: neither a pointer nor a plausible number (debuggers on Windows fill freed
#: memory with 0xDD).
FREED_BYTE = 0xDD
_NULL = bytes(8)

_log = logging.getLogger(__name__)


class ProfileMemory:
    """The memory of a game, mapped in this process (`soulslab.arena.window.game_loop.GameMemory`).

    Raises `LayoutError` if the profile cannot be laid out, or an attribute cannot hold all values of its quantity, and
    `OSError` if the memory cannot be mapped.
    """

    def __init__(
        self, profile: Profile, binding: Binding, game: LiveFight, choice: VariantChoice | None = None
    ) -> None:
        self.layout = layout = synthesise(profile, choice)
        self._binding = binding
        self._packing = Packing(binding, layout, game)
        with ExitStack() as undo:

            def own(mapping: Mapping) -> Mapping:
                undo.callback(mapping.close)
                return mapping

            self._program = own(map_program(profile.process.executable, layout.sizes[PROGRAM]))
            self._lasting = own(map_heap(layout.sizes[LASTING]))
            #: The objects of a fight are in one of them, those of the next fight in the other.
            self._heaps = [own(map_heap(layout.sizes[FIGHT])) for _ in range(2)]
            self._fill(self._program, PROGRAM)
            for pages in layout.code_pages:
                self._program.protect(*pages)
            undo.pop_all()
        self._fill(self._lasting, LASTING)
        size = self._packing.size
        self._wanted, self._known, self._found = bytearray(size), bytearray(size), bytearray(size)
        self._groups: list[_Group] = []
        self._n_fights = 0
        self._has_fight = False
        self._view: FightView | None = None
        self._open_heap()

    @property
    def starts(self) -> Starts:
        """Present address of each region of the layout."""
        return self._program.start, self._lasting.start, self._heaps[0].start

    def apply_writes(self, game: LiveFight) -> None:
        """Apply values that other processes wrote; invalid values are overwritten at the next `publish`."""
        for group in self._groups:
            group.gather()
        if self._found == self._known:
            return
        changed = list(self._packing.changed(self._found, self._known))
        self._known[:] = self._found
        for name, value in changed:
            try:
                if isinstance(value, ImplausibleValueError):
                    raise value
                self._binding.apply(game, {name: value})
            except (ImplausibleValueError, InvalidValueError) as error:
                _log.warning("an invalid value that was written is reverted: %s", error)

    def publish(self, game: LiveFight) -> None:
        """Write the fight to memory; only bytes that have changed are written.

        Raises `LayoutError` if an attribute cannot hold its quantity.
        """
        view = self._view
        if view is None or view.game is not game:
            view = self._view = FightView(game)
        view.refresh()
        if game.n_fights != self._n_fights:
            self._move_to_new_heap()
            self._n_fights = game.n_fights
        self._packing.pack(cast("LiveFight", view), self._wanted, self._known)
        if self._wanted != self._known:
            for group in self._groups:
                group.scatter()
            self._known[:] = self._wanted
        if (game.stage == "loading") is self._has_fight:
            self._set_fight_pointers(is_open=game.stage != "loading")

    def close(self) -> None:
        """Unmap all memory; a second call does nothing."""
        # Release the views first, so that no unmapped memory is read.
        self._groups = []
        for mapping in (self._program, self._lasting, *self._heaps):
            mapping.close()

    def _move_to_new_heap(self) -> None:
        """Create the objects of a new fight on the other heap, and overwrite those of the last fight."""
        self._heaps.reverse()
        old = self._heaps[1]
        for start, end in self.layout.objects[FIGHT]:
            old.fill(start, end - start, FREED_BYTE)
        self._open_heap()
        self._set_fight_pointers(is_open=False)

    def _open_heap(self) -> None:
        """Initialise the heap of the fight, and set up the words that are copied there."""
        heap = self._heaps[0]
        for start, end in self.layout.objects[FIGHT]:
            heap.fill(start, end - start, 0)
        self._fill(heap, FIGHT)
        self._groups = []
        for width, begin, end in self._packing.groups:
            parts = [memoryview(data)[begin:end] for data in (self._wanted, self._known, self._found)]
            self._groups.append(_Group(width, self._packing.words(width, begin, end, self.starts), parts))
            self._groups[-1].gather()
        for field in self._packing.fields:
            # Elsewhere, a value that was written just now differs from the known bytes and is applied later.
            if field.place.region == FIGHT or not self._n_fights:
                part = slice(field.at, field.at + field.size)
                self._known[part] = self._found[part]

    def _fill(self, mapping: Mapping, region: int) -> None:
        pieces = list(self.layout.content(region, self.starts))
        # The program's headers are written last, so that a process that attaches meanwhile finds no incomplete program.
        n_headers = int(region == PROGRAM)
        for offset, data in pieces[n_headers:]:
            mapping.write(offset, data)
        for place in {pointer.at for pointer in self.layout.fight_pointers}:
            if place.region == region:
                mapping.write(place.offset, _NULL)
        for offset, data in pieces[:n_headers]:
            mapping.write(offset, data)

    def _set_fight_pointers(self, *, is_open: bool) -> None:
        """Set the pointers to the objects of a fight, or make them null while there is no fight."""
        mappings = (self._program, self._lasting, self._heaps[0])
        for pointer in self.layout.fight_pointers:
            address = self.starts[pointer.to.region] + pointer.to.offset
            mappings[pointer.at.region].write(pointer.at.offset, struct.pack("<Q", address) if is_open else _NULL)
        self._has_fight = is_open


class _Group:
    """Words of one width at any addresses (n,), divided by the width, and their packed bytes."""

    def __init__(self, width: int, words: NDArray[np.int64], parts: list[memoryview]) -> None:
        self._wanted, self._known, self._found = (np.frombuffer(part, f"<u{width}") for part in parts)
        # One array over the whole range; only the words themselves are accessed.
        self._first = first = int(words.min())
        n = int(words.max()) + 1 - first
        span = (ctypes.c_uint8 * (n * width)).from_address(first * width)
        self._memory = np.frombuffer(memoryview(span), f"<u{width}")
        self._words = words - first

    def gather(self) -> None:
        """Read all words."""
        self._memory.take(self._words, out=self._found, mode="clip")

    def scatter(self) -> None:
        """Write the words whose wanted value differs from the known one."""
        changed = (self._wanted != self._known).nonzero()[0]
        if len(changed):
            self._memory[self._words[changed]] = self._wanted[changed]
