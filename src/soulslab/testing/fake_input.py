"""Input without a target, for tests: everything that would be sent is recorded in a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from soulslab.siphon.input.held_input import Change, HeldInput
from soulslab.siphon.keys import Key


class _FakeSender:
    """Records everything that is sent."""

    backend = "fake"

    def __init__(self) -> None:
        self.events: list[tuple[str, bool]] = []
        self.mouse_px = (0, 0)

    def check(self, keys: Collection[Key]) -> None:
        del keys  # every key is valid

    def send(self, changes: Sequence[Change]) -> None:
        self.events += [(change.key.name, change.is_press) for change in changes]

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        self.mouse_px = (self.mouse_px[0] + dx_px, self.mouse_px[1] + dy_px)

    def close(self) -> None:
        return


class FakeInput(HeldInput):
    """An `Input` without a game."""

    def __init__(self) -> None:
        self._fake = _FakeSender()
        super().__init__(self._fake)

    @property
    def events(self) -> list[tuple[str, bool]]:
        """All sent changes: name of the key, and whether it was pressed."""
        return self._fake.events

    @property
    def mouse_px(self) -> tuple[int, int]:
        """Sum of all mouse movements."""
        return self._fake.mouse_px
