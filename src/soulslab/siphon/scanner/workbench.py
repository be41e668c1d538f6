"""What the commands of the scan prompt work on: the game, the search, the paths, the terminal."""

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
    """The ways to a value that were found.

    Attributes:
        all: The shortest first.
        search: Of the type of the value.
        found_in: Number of the run of the game in which they were found.
        n_restarts: How many later runs they have held in.
        seen_in: Number of the last run in which they were looked at.
    """

    all: list[PointerPath]
    search: Search
    found_in: int
    n_restarts: int = 0
    seen_in: int = 0


class KeyInput(msgspec.Struct, frozen=True):
    """Keys that were pressed by a command.

    Attributes:
        keys: Physical keys, or actions of the profile's ``[keys]``; none for a wait.
        seconds: Game time for which they were held.
        is_tap: They were pressed one after another, each for `seconds`, and released for as long.
    """

    keys: tuple[str, ...]
    seconds: float
    is_tap: bool = False


class Workbench:
    """The state of a scan.

    Args:
        game: What is scanned.
        file: The profile that is being made; it need not exist.
        console: The terminal.
        ask: Asks the user for a line; None if nobody is there.

    Attributes:
        search: The search that is under way.
        paths: What ``path`` has found; None before.
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
        """Begin a search anew: another one, or of the same type."""
        self.search = search or open_search(self.game.memory, self.search.type)

    def address(self, number: str) -> int:
        """Return the address of the candidate with a number, as `show` prints it; also takes 0x... for any address.

        Raises:
            ConfigError: There is none of that number.
        """
        if number.lower().startswith("0x"):
            try:
                return int(number, 16)
            except ValueError as error:
                raise ConfigError("is no address", source=number) from error
        if not number.isascii() or not number.isdigit() or int(number) < 1:
            raise ConfigError("is no number of a candidate, as list shows it, and no address as 0x1234", source=number)
        addresses = self.search.addresses(int(number))
        if len(addresses) < int(number):
            raise ConfigError(f"is no candidate; there are {self.search.n_candidates}", source=number)
        return addresses[-1]

    def where(self, address: int) -> str:
        """Return an address as a person wants to read it."""
        start = self.game.image.base
        is_inside = start <= address < start + self.game.image.size
        return f"{address:#x}  executable+{address - start:#x}" if is_inside else f"{address:#x}"

    def show(self, limit: int = N_SHOWN) -> None:
        """Print how many candidates there are, and the first with their values: of the last round, and of now."""
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
            ScanError: None have been searched.
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
        """Return what ``path`` has found.

        Raises:
            ScanError: Nothing, or it was not asked.
        """
        if self.paths is None or not self.paths.all:
            raise ScanError("there is no path yet; narrow the candidates down, then: path 1")
        return self.paths

    def now(self, search: Search, address: int) -> str:
        """Return what a place holds now, as text."""
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
        """Show how far something is, on a terminal."""
        with ProgressBar(console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
