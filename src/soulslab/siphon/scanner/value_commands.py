"""Commands of the scan prompt that find and change a value, and that control the game."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from soulslab.errors import ConfigError, did_you_mean
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.phrases import TYPE_NAMES
from soulslab.siphon.scanner.scanned_game import TAP_S
from soulslab.siphon.scanner.searches import TextType, open_search
from soulslab.siphon.scanner.workbench import KeyInput, Workbench

TEXT_NAMES: Final[dict[str, TextType]] = {"utf8": "utf8", "utf16": "utf16", "text": "utf8", "text16": "utf16"}
TYPES: Final[dict[str, NumberType | TextType]] = {**TYPE_NAMES, **TEXT_NAMES}
MAX_LISTED = 10_000


class Command(msgspec.Struct, frozen=True):
    """A command of the prompt.

    Attributes:
        usage: Name and arguments, as help shows them.
        what: Help text.
        n_arguments: Minimum and maximum number of arguments.
        do: Executes the command.
    """

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
    alignment = _whole(words[1], least=1) if len(words) > 1 else 0
    bench.begin(open_search(bench.game.memory, TYPES[name], alignment))
    bench.say(f"looking for {TYPES[name]}; say what the value is: = 100, or ? if you do not know")


def _list(bench: Workbench, words: list[str]) -> None:
    bench.show(min(_whole(words[0], least=1), MAX_LISTED) if words else 20)


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
    play_input(bench, KeyInput(tuple(words[:-1]), _seconds(words[-1])))


def _tap(bench: Workbench, words: list[str]) -> None:
    play_input(bench, KeyInput(tuple(words), TAP_S, is_tap=True))


def _wait(bench: Workbench, words: list[str]) -> None:
    play_input(bench, KeyInput((), _seconds(words[0])))


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


def _whole(text: str, *, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigError(f"is not a whole number from {least} on", source=text)
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 3600:
        raise ConfigError("is not a number above 0 and below 3600", source=text)
    return seconds


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
    Command("wait SECONDS", "let so much game time pass", (1, 1), _wait),
    Command("pause", "hold the game's time", (0, 0), _pause),
    Command("run [SPEED]", "let the game's time run", (0, 1), _run),
    Command("shot FILE.png", "take a picture of the game's window", (1, 1), _shot),
)
