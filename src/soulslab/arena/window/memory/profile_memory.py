"""The memory of the game's process, as a profile says: the fight is published to it, and writes are taken from it."""

from __future__ import annotations

import ctypes
import logging
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.memory.fight_view import FightView
from soulslab.arena.window.memory.layout import FIGHT, LASTING, PROGRAM, Starts, synthesise
from soulslab.arena.window.memory.mapping import Mapping, map_heap, map_program
from soulslab.arena.window.memory.packing import Packing
from soulslab.arena.window.memory.truth import Truth
from soulslab.errors import ImplausibleValueError, InvalidValueError
from soulslab.siphon.profile import Profile

#: What objects of a fight that is over hold: no pointer, and no plausible number (0xDD is what debuggers of Windows
#: fill freed memory with).
RUBBISH = 0xDD
_NULL = bytes(8)

_log = logging.getLogger(__name__)


class ProfileMemory:
    """The memory of a game, mapped in this process (`soulslab.arena.window.game.GameMemory`).

    Args:
        profile: What can be found in it.
        binding: Which attributes hold the fight.
        game: Whose fights they will be.
        folder: Where the file of the program is made; it must not hold another game's of the same name.
        truth: What is true where the profile leaves it open; None for the first version and each attribute's own facts.

    Attributes:
        layout: What lies where.

    Raises:
        LayoutError: The profile cannot be laid out, or an attribute cannot hold what its quantity may become.
        OSError: The system does not map it.
    """

    def __init__(
        self, profile: Profile, binding: Binding, game: LiveFight, folder: Path, truth: Truth | None = None
    ) -> None:
        self.layout = layout = synthesise(profile, truth)
        self._binding = binding
        self._packing = Packing(binding, layout, game)
        with ExitStack() as undo:

            def own(mapping: Mapping) -> Mapping:
                undo.callback(mapping.close)
                return mapping

            self._program = own(map_program(folder / profile.process.executable, layout.sizes[PROGRAM]))
            self._lasting = own(map_heap(layout.sizes[LASTING]))
            #: The objects of a fight lie in one, those of the next in the other.
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
        self._has_doors_open = False
        self._view: FightView | None = None
        self._open_heap()

    @property
    def starts(self) -> Starts:
        """Where the regions of the layout are now."""
        return self._program.start, self._lasting.start, self._heaps[0].start

    def take_writes(self, game: LiveFight) -> None:
        """Bring what somebody wrote into the fight; what cannot be is put back at the next `publish`."""
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
                _log.warning("what was written is put back: %s", error)

    def publish(self, game: LiveFight) -> None:
        """Bring the fight into memory; only what has changed is written.

        Raises:
            LayoutError: An attribute cannot hold its quantity.
        """
        view = self._view
        if view is None or view.game is not game:
            view = self._view = FightView(game)
        view.refresh()
        if game.n_fights != self._n_fights:
            self._move()
            self._n_fights = game.n_fights
        self._packing.pack(cast("LiveFight", view), self._wanted, self._known)
        if self._wanted != self._known:
            for group in self._groups:
                group.scatter()
            self._known[:] = self._wanted
        if (game.stage == "loading") is self._has_doors_open:
            self._set_doors(is_open=game.stage != "loading")

    def close(self) -> None:
        """Unmap all of it; a second call does nothing."""
        # The views on the memory go first: nothing may read what is no longer mapped.
        self._groups = []
        for mapping in (self._program, self._lasting, *self._heaps):
            mapping.close()

    def _move(self) -> None:
        """Make the objects of a new fight where those of the last one are not, and spoil those."""
        self._heaps.reverse()
        old = self._heaps[1]
        for start, end in self.layout.objects[FIGHT]:
            old.fill(start, end - start, RUBBISH)
        self._open_heap()
        self._set_doors(is_open=False)

    def _open_heap(self) -> None:
        """Fill the heap of the fight, and point there."""
        heap = self._heaps[0]
        for start, end in self.layout.objects[FIGHT]:
            heap.fill(start, end - start, 0)
        self._fill(heap, FIGHT)
        groups = self._packing.groups
        self._groups = [
            _Group(width, self._packing.words(width, begin, end, self.starts), parts)
            for width, begin, end in groups
            for parts in [[memoryview(data)[begin:end] for data in (self._wanted, self._known, self._found)]]
        ]
        for group in self._groups:
            group.gather()
        for field in self._packing.fields:
            # What somebody has just written elsewhere is not known yet, and so not lost.
            if field.place.region == FIGHT or not self._n_fights:
                part = slice(field.at, field.at + field.size)
                self._known[part] = self._found[part]

    def _fill(self, mapping: Mapping, region: int) -> None:
        pieces = list(self.layout.content(region, self.starts))
        # The program's headers are written last: who attaches meanwhile sees no program, and not half of one.
        n_headers = int(region == PROGRAM)
        for offset, data in pieces[n_headers:]:
            mapping.write(offset, data)
        for place in {pointer.at for pointer in self.layout.doors}:
            if place.region == region:
                mapping.write(place.offset, _NULL)
        for offset, data in pieces[:n_headers]:
            mapping.write(offset, data)

    def _set_doors(self, *, is_open: bool) -> None:
        """Set the pointers that lead to the objects of a fight; null while there are none."""
        mappings = (self._program, self._lasting, self._heaps[0])
        for pointer in self.layout.doors:
            address = self.starts[pointer.to.region] + pointer.to.offset
            mappings[pointer.at.region].write(pointer.at.offset, struct.pack("<Q", address) if is_open else _NULL)
        self._has_doors_open = is_open


class _Group:
    """Words of one width, wherever they are.

    Args:
        width: Bytes of a word.
        words: (n,) address of each, divided by the width.
        parts: The packed bytes that are wanted, known and found.
    """

    def __init__(self, width: int, words: NDArray[np.int64], parts: list[memoryview]) -> None:
        self._wanted, self._known, self._found = (np.frombuffer(part, f"<u{width}") for part in parts)
        # One array over all of them; only the words themselves are ever touched.
        self._first = first = int(words.min())
        n = int(words.max()) + 1 - first
        span = (ctypes.c_uint8 * (n * width)).from_address(first * width)
        self._memory = np.frombuffer(memoryview(span), f"<u{width}")
        self._words = words - first

    def gather(self) -> None:
        """Read all words."""
        self._memory.take(self._words, out=self._found, mode="clip")

    def scatter(self) -> None:
        """Write the words that are wanted and not there."""
        changed = (self._wanted != self._known).nonzero()[0]
        if len(changed):
            self._memory[self._words[changed]] = self._wanted[changed]
