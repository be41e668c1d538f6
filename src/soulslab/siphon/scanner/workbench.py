"""The state of a scan (game, search, paths, terminal), and the commands of the prompt that find and change a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as ProgressBar
from rich.table import Table

from soulslab.errors import ConfigError, MemoryAccessError, ScanError, did_you_mean
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.conditions import TYPE_NAMES
from soulslab.siphon.scanner.pointers import PointerPath, follow
from soulslab.siphon.scanner.scanned_game import TAP_S, ScannedGame
from soulslab.siphon.scanner.searches import Search, TextType, open_search
from soulslab.siphon.scanner.value_scan import Progress

N_SHOWN = 10


class Paths(msgspec.Struct):
    """The pointer paths to a value, the shortest first, and the search for the type of the value.

    They were found in one run of the game, were valid in `n_restarts` later ones, and last checked in another one.
    """

    all: list[PointerPath]
    search: Search
    found_in: int
    n_restarts: int = 0
    seen_in: int = 0


class KeyInput(msgspec.Struct, frozen=True):
    """Keys that a command held for some game time; no keys for a wait, and a tap presses them one after another."""

    keys: tuple[str, ...]
    seconds: float
    is_tap: bool = False


class Workbench:
    """The state of a scan.

    The file of the profile need not exist; without a user, `ask` is None. `inputs` are the keys and waits since the
    game was started; with `is_exact_start`, the time of the game has passed in these only.
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
        """Return the address of a numbered candidate of `show`, or an address given as 0x.... Raises `ConfigError`."""
        if number.lower().startswith("0x"):
            try:
                return int(number, 16)
            except ValueError as error:
                raise ConfigError("is not an address", source=number) from error
        problem = "is neither a candidate number, as list shows it, nor an address such as 0x1234"
        n = parse_whole(number, least=1, problem=problem)
        addresses = self.search.addresses(n)
        if len(addresses) < n:
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
        for title in ("", "now", "before"):
            table.add_column(title, overflow="fold", justify="right")
        table.add_column("address", overflow="fold")
        addresses, before = search.addresses(limit), search.before(limit)
        for i, (address, value) in enumerate(zip(addresses, before, strict=True), 1):
            table.add_row(str(i), escape(self.now(search, address)), escape(value), self.where(address))
        self.console.print(table)
        if n > limit:
            self.say(f"... and {n - limit} more; list {min(n, 100)} shows them", style="dim")

    def show_paths(self, limit: int = N_SHOWN) -> None:
        """Print the paths with the values that they lead to now. Raises `ScanError` if no paths have been searched."""
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
        """Return the result of ``path``. Raises `ScanError` if there is none."""
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


TEXT_NAMES: Final[dict[str, TextType]] = {"utf8": "utf8", "utf16": "utf16", "text": "utf8", "text16": "utf16"}
TYPES: Final[dict[str, NumberType | TextType]] = {**TYPE_NAMES, **TEXT_NAMES}
MAX_LISTED = 10_000


class Command(msgspec.Struct, frozen=True):
    """A command of the prompt: usage, help text, minimum and maximum number of arguments, and function."""

    usage: str
    what: str
    n_arguments: tuple[int, int]
    do: Callable[[Workbench, list[str]], None]

    @property
    def name(self) -> str:
        """Name of the command."""
        return self.usage.split()[0]


def look(bench: Workbench, line: str) -> bool:
    """Search for the value or change that a line states; return False if it states none."""
    with bench.game.held_still(), bench.progress("searching") as progress:
        is_condition = bench.search.look(line, progress)
    if is_condition:
        bench.show()
    return is_condition


# --- finding ------------------------------------------------------------------------------------------------


def _type(bench: Workbench, words: list[str]) -> None:
    name = words[0].lower()
    if name not in TYPES:
        raise ConfigError(f"unknown type{did_you_mean(name, TYPES)}", source=words[0])
    alignment = parse_whole(words[1], least=1) if len(words) > 1 else 0
    bench.begin(open_search(bench.game.memory, TYPES[name], alignment))
    bench.say(f"looking for {TYPES[name]}; say what the value is: = 100, or ? if you do not know")


def _list(bench: Workbench, words: list[str]) -> None:
    bench.show(min(parse_whole(words[0], least=1), MAX_LISTED) if words else 20)


def _undo(bench: Workbench, _words: list[str]) -> None:
    bench.search.undo()
    bench.show()


def _new(bench: Workbench, _words: list[str]) -> None:
    bench.begin()
    bench.say(f"begun anew, type {bench.search.type}")


def _write(bench: Workbench, words: list[str]) -> None:
    address = bench.address(words[0])
    old = bench.now(bench.search, address)
    bench.game.memory.write(address, bench.search.encode(" ".join(words[1:])))
    bench.say(f"{bench.where(address)}: {old} -> {bench.now(bench.search, address)}; check whether the game shows it")


# --- playing ------------------------------------------------------------------------------------------------


def _hold(bench: Workbench, words: list[str]) -> None:
    """Hold keys for a time, or wait without keys."""
    play_input(bench, KeyInput(tuple(words[:-1]), _seconds(words[-1])))


def _tap(bench: Workbench, words: list[str]) -> None:
    play_input(bench, KeyInput(tuple(words), TAP_S, is_tap=True))


def play_input(bench: Workbench, entry: KeyInput) -> None:
    """Press keys or advance time, and add that to the inputs since the start of the game."""
    if entry.is_tap:
        bench.game.tap(entry.keys)
    elif entry.keys:
        bench.game.hold(entry.keys, entry.seconds)
    else:
        bench.game.pass_time(entry.seconds)
    bench.inputs.append(entry)


def _shot(bench: Workbench, words: list[str]) -> None:
    from soulslab.siphon.terminal_output import save_frame  # noqa: PLC0415  (OpenCV only when it is needed)

    file = Path(words[0]).expanduser()
    frame = bench.game.capture()
    save_frame(frame, file)
    height, width = frame.pixels.shape[:2]
    bench.say(f"{file}: {width}x{height} px")


def _pause(bench: Workbench, _words: list[str]) -> None:
    bench.game.pause()
    bench.say("time stands still; run lets it go on, wait and hold let so much of it pass")


def _run(bench: Workbench, words: list[str]) -> None:
    bench.game.run(_seconds(words[0]) if words else 1.0)
    bench.is_exact_start = False


# --- reading numbers ----------------------------------------------------------------------------------------


def parse_whole(text: str, *, least: int, problem: str = "", source: str = "") -> int:
    """Parse a whole number. Raises `ConfigError`, with another problem and source if they are given."""
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigError(problem or f"is not a whole number from {least} on", source=source or text)
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < 3600:
            return float(text)
    raise ConfigError("is not a number above 0 and below 3600", source=text)


FIND = (
    Command("type TYPE [ALIGNMENT]", "how it is stored: i32 (as most), f32, i16, u8, f64, ..., text", (1, 2), _type),
    Command("list [N]", "show the candidates again, with their values of now", (0, 1), _list),
    Command("undo", "take the last round back", (0, 0), _undo),
    Command("new", "begin anew", (0, 0), _new),
    Command("write N VALUE", "write to candidate N, to see whether it is the right one", (2, 99), _write),
)
PLAY = (
    Command("hold KEY ... SECONDS", "hold keys (LEFT_ARROW, SPACE, W, ...) for so much game time", (2, 20), _hold),
    Command("tap KEY ...", "press and release keys, one after another", (1, 50), _tap),
    Command("wait SECONDS", "let so much game time pass", (1, 1), _hold),
    Command("pause", "hold the game's time", (0, 0), _pause),
    Command("run [SPEED]", "let the game's time run", (0, 1), _run),
    Command("shot FILE.png", "take a picture of the game's window", (1, 1), _shot),
)
