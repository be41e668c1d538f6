"""The state of a scan, on which the commands of the prompt operate: game, search, paths, terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as ProgressBar
from rich.table import Table

from soulslab.errors import ConfigError, MemoryAccessError, ScanError
from soulslab.siphon.scanner.pointers import PointerPath, follow
from soulslab.siphon.scanner.scanned_game import ScannedGame
from soulslab.siphon.scanner.searches import Search, open_search
from soulslab.siphon.scanner.value_scan import Progress

N_SHOWN = 10


class Paths(msgspec.Struct):
    """The pointer paths to a value.

    Attributes:
        all: Paths, the shortest first.
        search: Search for the type of the value.
        found_in: Number of the run of the game in which they were found.
        n_restarts: Number of later runs in which they were valid.
        seen_in: Number of the last run in which they were checked.
    """

    all: list[PointerPath]
    search: Search
    found_in: int
    n_restarts: int = 0
    seen_in: int = 0


class KeyInput(msgspec.Struct, frozen=True):
    """Keys that a command pressed.

    Attributes:
        keys: Physical keys, or actions of the profile's ``[keys]``; empty for a wait.
        seconds: Game time for which they were held.
        is_tap: Whether they were pressed one after another, each for `seconds`, and released for as long.
    """

    keys: tuple[str, ...]
    seconds: float
    is_tap: bool = False


class Workbench:
    """The state of a scan.

    Args:
        game: Scanned game.
        file: Path of the profile, which need not exist.
        console: Terminal.
        ask: Asks the user for a line; None without a user.

    Attributes:
        search: Current search.
        paths: Result of ``path``; None before.
        inputs: Keys and waits since the game was started.
        is_exact_start: Whether the time of the game has passed in these inputs only.
    """

    def __init__(
        self, game: ScannedGame, file: Path, console: Console, ask: Callable[[str], str] | None = None
    ) -> None:
        self.game = game
        self.file = file
        self.console = console
        self.ask = ask
        self.search: Search = open_search(game.memory, "i32")
        self.paths: Paths | None = None
        self.inputs: list[KeyInput] = []
        self.is_exact_start = False

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self.console.print(escape(text), style=style, highlight=False, soft_wrap=True)

    def begin(self, search: Search | None = None) -> None:
        """Start a new search: another one, or one of the same type."""
        self.search = search or open_search(self.game.memory, self.search.type)

    def address(self, number: str) -> int:
        """Return the address of a numbered candidate of `show`; also accepts any address as 0x....

        Raises:
            ConfigError: No candidate has the number.
        """
        if number.lower().startswith("0x"):
            try:
                return int(number, 16)
            except ValueError as error:
                raise ConfigError("is not an address", source=number) from error
        if not number.isascii() or not number.isdigit() or int(number) < 1:
            raise ConfigError(
                "is neither a candidate number, as list shows it, nor an address such as 0x1234", source=number
            )
        addresses = self.search.addresses(int(number))
        if len(addresses) < int(number):
            raise ConfigError(
                f"is not a candidate; the number of candidates is {self.search.n_candidates}", source=number
            )
        return addresses[-1]

    def where(self, address: int) -> str:
        """Return an address as text for people."""
        start = self.game.image.base
        is_inside = start <= address < start + self.game.image.size
        return f"{address:#x}  executable+{address - start:#x}" if is_inside else f"{address:#x}"

    def show(self, limit: int = N_SHOWN) -> None:
        """Print the number of candidates, and the first ones with their values in the last round and now."""
        search = self.search
        n = search.n_candidates
        if not search.n_rounds:
            self.say(f"nothing has been looked for; type {search.type}. Say what the value is: = 100")
            return
        self.say(f"{n} place{'' if n == 1 else 's'}, type {search.type}", style="bold")
        if not n:
            self.say("none is left: undo takes the last round back, type tries another type (f32, i16, ...)")
            return
        table = Table(box=None, pad_edge=False)
        for title in ("", "now", "before", "address"):
            table.add_column(title, overflow="fold", justify="right" if title in ("", "now", "before") else "left")
        addresses, before = search.addresses(limit), search.before(limit)
        for i, (address, value) in enumerate(zip(addresses, before, strict=True), 1):
            table.add_row(str(i), escape(self.now(search, address)), escape(value), self.where(address))
        self.console.print(table)
        if n > limit:
            self.say(f"... and {n - limit} more; list {min(n, 100)} shows them", style="dim")

    def show_paths(self, limit: int = N_SHOWN) -> None:
        """Print the paths with the values that they lead to now.

        Raises:
            ScanError: No paths have been searched.
        """
        paths = self.found_paths()
        table = Table(box=None, pad_edge=False)
        for title in ("", "now", "path"):
            table.add_column(title, overflow="fold")
        for i, path in enumerate(paths.all[:limit], 1):
            table.add_row(str(i), escape(self._at_end(path, paths.search)), escape(str(path)))
        self.console.print(table)
        if len(paths.all) > limit:
            self.say(f"... and {len(paths.all) - limit} more", style="dim")

    def found_paths(self) -> Paths:
        """Return the result of ``path``.

        Raises:
            ScanError: No paths were found, or ``path`` was not used.
        """
        if self.paths is None or not self.paths.all:
            raise ScanError("no path was searched yet; narrow the candidates down, then: path 1")
        return self.paths

    def now(self, search: Search, address: int) -> str:
        """Return the current value of a place, as text."""
        try:
            return search.now(address)
        except MemoryAccessError:
            return "(freed)"

    def _at_end(self, path: PointerPath, search: Search) -> str:
        try:
            return self.now(search, follow(path, self.game.memory, self.game.modules(with_libraries=bool(path.module))))
        except MemoryAccessError:
            return "(leads nowhere)"

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Show a progress bar on a terminal."""
        with ProgressBar(console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
