"""Commands of the scan prompt that find pointer paths to a value, verify them, and write the profile entry."""

from __future__ import annotations

import math
import time
from contextlib import suppress

from soulslab.errors import (
    AttributeVersionError,
    ConfigError,
    MemoryAccessError,
    ProcessNotFoundError,
    ProfileError,
    ScanError,
    did_you_mean,
)
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import Value, load_profile
from soulslab.siphon.profile.loading import parse_profile
from soulslab.siphon.scanner.entry import Found, add_entry, edit_profile, profile_entry
from soulslab.siphon.scanner.pointers import Limits, PointerMap, PointerPath, holding
from soulslab.siphon.scanner.searches import open_search
from soulslab.siphon.scanner.signature import Signature, find_signature
from soulslab.siphon.scanner.workbench import Command, Paths, Workbench, parse_whole, play_input
from soulslab.siphon.session import LOADING

MAX_LEVELS = 7
SAVE_WORDS = ("range", "unit", "path", "length", "scale", "by")


def _path(bench: Workbench, words: list[str]) -> None:
    address = bench.address(words[0])
    numbers = []
    for word in words[1:]:
        try:
            numbers.append(int(word, 0))
        except ValueError as error:
            raise ConfigError("is not a whole number", source=word) from error
    limits = Limits(**dict(zip(("max_depth", "max_offset"), numbers, strict=False)))
    if not 1 <= limits.max_depth <= MAX_LEVELS or not 0 <= limits.max_offset <= 1 << 20:
        raise ConfigError(f"depth is 1 to {MAX_LEVELS}, and the offset 0 to 0x100000", source=" ".join(words))
    with bench.game.held_still(), bench.progress("reading pointers") as progress:
        found = PointerMap(bench.game.memory, bench.game.modules(), progress).paths_to(address, limits)
        if not found:
            # In some games the program is small, and the game itself is a library.
            with_libraries = bench.game.modules(with_libraries=True)
            found = PointerMap(bench.game.memory, with_libraries, progress).paths_to(address, limits)
    if not found:
        raise ScanError(
            f"no path leads from the program to {address:#x} with up to {limits.max_depth} pointers and offsets up to "
            f"{limits.max_offset:#x}; try: path {words[0]} {limits.max_depth + 1} {limits.max_offset * 2:#x}"
        )
    run = bench.game.n_starts
    search = open_search(bench.game.memory, bench.search.type)
    bench.paths = Paths(all=found, search=search, found_in=run, seen_in=run)
    _say_paths(bench, "")
    if not found[0].offsets:
        bench.say("it lies in the program itself: one place, the same in every run; save NAME writes it down")
    else:
        bench.say("most are accidental: restart the game; then verify VALUE keeps the paths that still lead to it")


def _paths(bench: Workbench, _words: list[str]) -> None:
    _say_paths(bench, "")


def _restart(bench: Workbench, _words: list[str]) -> None:
    bench.game.restart()
    _after_restart(bench)


def _replay(bench: Workbench, _words: list[str]) -> None:
    inputs = list(bench.inputs)
    bench.game.pause()
    bench.game.restart()
    _after_restart(bench)
    for entry in inputs:
        play_input(bench, entry)


def _attach(bench: Workbench, words: list[str]) -> None:
    bench.game.attach(parse_whole(words[0], least=0, problem="is not a process id") if words else 0)
    _after_restart(bench)


def _after_restart(bench: Workbench) -> None:
    """Continue with another run of the game: addresses have changed, and only pointer paths may still be valid."""
    bench.begin()
    bench.inputs.clear()
    bench.is_exact_start = bench.game.is_paused
    if bench.paths is not None:
        bench.paths.search = open_search(bench.game.memory, bench.paths.search.type)
    has_paths = bench.paths is not None and bench.paths.all
    hint = "; verify VALUE keeps the paths that still hold" if has_paths else ""
    bench.say(f"process {bench.game.pid}; the candidates of before are gone{hint}")


def _verify(bench: Workbench, words: list[str]) -> None:
    paths = bench.found_paths()
    if bench.game.has_ended:
        try:
            bench.game.restart()
        except ProcessNotFoundError as error:
            raise ProcessNotFoundError(f"the game has ended, and {error}") from error
        _after_restart(bench)
    line = " ".join(words)
    line = line if line.startswith(("=", "<", ">")) or ".." in line or "between" in line else f"= {line}"
    modules = bench.game.modules(with_libraries=any(path.module for path in paths.all))
    memory = bench.game.memory
    with bench.game.held_still():
        kept = holding(paths.all, memory, modules, lambda address: paths.search.fulfils(address, line))
    if not kept:
        raise ScanError(
            f"none of {len(paths.all)} paths leads to a value that fulfils {line!r}; all are kept. Is that what the "
            f"game shows now? If so, look for the value anew and search deeper: path N {Limits().max_depth + 1}"
        )
    n_before, paths.all = len(paths.all), kept
    if bench.game.n_starts > paths.seen_in:
        paths.n_restarts += 1
        paths.seen_in = bench.game.n_starts
    _say_paths(bench, f" of {n_before}")
    if not paths.n_restarts:
        bench.say("the game has not been restarted since they were found, so this proves little: restart it first")


def _say_paths(bench: Workbench, of: str) -> None:
    paths = bench.found_paths()
    n = len(paths.all)
    held = f", held over {paths.n_restarts} restart{'' if paths.n_restarts == 1 else 's'}" if paths.n_restarts else ""
    bench.say(f"{n}{of} path{'' if n == 1 else 's'}{held}", style="bold")
    bench.show_paths()


# --- saving -------------------------------------------------------------------------------------------------


def _save(bench: Workbench, words: list[str]) -> None:
    """Write the profile entry; nothing is written if the value cannot be read by it."""
    given = _named(words[1:])
    paths = bench.found_paths()
    check_name_is_free(bench, words[0])
    found = _found(bench, words[0], given)
    value = _try(bench, found)
    with edit_profile(bench.file, bench.game.profile) as document:
        add_entry(document, found)
    how = "a byte pattern" if found.signature else "its offset from the module"
    bench.say(f"{bench.file}: {found.name} = {value}, found by {how}", style="bold")
    if paths.all[0].offsets and not paths.n_restarts:
        bench.say("it has not been proven by a restart yet: restart the game and read it again", style="yellow")


def check_name_is_free(bench: Workbench, name: str) -> None:
    """Raise `ProfileError` if the profile has a value with a name."""
    if not bench.file.exists():
        return
    there = load_profile(bench.file)
    if name in there.attributes or name in there.bases:
        raise ProfileError(
            f"has a value {name!r} already; save it under another name, or take [bases.{name}] and "
            f"[attributes.{name}] out of the file",
            source=bench.file,
        )


def _values(bench: Workbench, _words: list[str]) -> None:
    if not bench.file.exists():
        raise ScanError(f"{bench.file} does not exist yet; the command save creates it")
    profile = load_profile(bench.file)
    table = AttributeTable(profile, bench.game.memory, resolve_addresses(profile, bench.game.memory, bench.game.image))
    for name, attribute in profile.attributes.items():
        try:
            bench.say(f"{name} = {table.read(name)} {attribute.unit}".rstrip())
        except (MemoryAccessError, AttributeVersionError, *LOADING) as error:
            bench.say(f"{name}: {error}", style="red")


def _found(bench: Workbench, name: str, given: dict[str, str]) -> Found:
    """Return the value to save; asks for missing details."""
    paths = bench.found_paths()
    number, problem = given.get("path", "1"), f"is not a path; paths are numbered 1 to {len(paths.all)}"
    n = parse_whole(number, least=1, problem=problem, source=f"path={number}")
    if n > len(paths.all):
        raise ConfigError(problem, source=f"path={number}")
    path = paths.all[n - 1]
    value_type = paths.search.type
    is_text = value_type in ("utf8", "utf16")
    length = given.get("length", "32")
    if not is_text and "range" not in given:
        if bench.ask is None:
            raise ConfigError(f"needs the least and most plausible value: save {name} range=0..100", source="save")
        given["range"] = bench.ask("least and most plausible value, as 0..100: ")
        given.setdefault("unit", bench.ask("unit (hp, m, s, ...; empty for none): ").strip())
    image = bench.game.image
    restarts = f", held over {paths.n_restarts} restart{'s' * (paths.n_restarts != 1)}" if paths.n_restarts else ""
    version = f" {image.version}" if image.version else ""
    source = f"soulslab siphon scan of {bench.game.profile.process.executable}{version}, {time.strftime('%Y-%m-%d')}"
    return Found(
        name=name,
        path=path,
        type=value_type,
        range=None if is_text else _range(given["range"]),
        length=parse_whole(length, least=1, problem="is not a number of bytes", source=f"length={length}")
        if is_text
        else 1,
        scale=_number(given.get("scale", "1"), "scale"),
        unit=given.get("unit", ""),
        source=source + restarts,
        signature=signature_of(bench, path, given.get("by", "")),
    )


def signature_of(bench: Workbench, path: PointerPath, by: str) -> Signature | None:
    """Return a byte pattern for the start of a path; None if none is found or requested."""
    if by not in ("", "pattern", "offset"):
        raise ConfigError("is neither pattern nor offset", source=f"by={by}")
    if by == "offset" or path.module:
        return None
    try:
        return find_signature(bench.game.memory, bench.game.image, bench.game.image.base + path.offset)
    except ScanError as error:
        if by == "pattern":
            raise
        bench.say(f"no byte pattern, which would survive updates: {error}", style="dim")
        return None


def _try(bench: Workbench, found: Found) -> Value:
    """Read the value by its entry, as a session would."""
    process = {"executable": bench.game.profile.process.executable}
    source = f"entry of {found.name}"
    alone = parse_profile({"format": 1, "name": found.name, "process": process} | profile_entry(found), source)
    places = resolve_addresses(alone, bench.game.memory, bench.game.image)
    return AttributeTable(alone, bench.game.memory, places).read(found.name)


def _named(words: list[str]) -> dict[str, str]:
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in SAVE_WORDS:
            raise ConfigError(f"unknown argument{did_you_mean(name, SAVE_WORDS)}, each as name=value", source=word)
        given[name] = value
    return given


def _range(text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    if not dots:
        problem = "is not a range; give the least and the most plausible value, as 0..100"
        raise ConfigError(problem, source=f"range={text}")
    return (_number(low, "range"), _number(high, "range"))


def _number(text: str, name: str) -> float:
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return int(number) if number == int(number) and name == "range" else number
    raise ConfigError("is not a number", source=f"{name}={text}")


PATHS = (
    Command(
        "path N [DEPTH [OFFSET]]",
        "find pointer paths from the program to candidate N, by up to 4 pointers",
        (1, 3),
        _path,
    ),
    Command("paths", "show them again, with the values that they lead to now", (0, 0), _paths),
    Command("restart", "start the game again; or find it again, if you have", (0, 0), _restart),
    Command("replay", "restart the game, paused, and repeat the keys and waits since its last start", (0, 0), _replay),
    Command("attach [PID]", "go on with another process of the game", (0, 1), _attach),
    Command("verify VALUE", "keep the paths that lead to VALUE; after a restart few do", (1, 99), _verify),
    Command(
        "save NAME [range=LOW..HIGH]",
        "write the value into the profile; also unit=hp, path=2, scale=0.1, length=32, by=offset",
        (1, 7),
        _save,
    ),
    Command("values", "show all values of the profile as it is now", (0, 0), _values),
)
