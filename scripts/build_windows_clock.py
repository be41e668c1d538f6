"""Build the clock library for Windows from its C sources, with mingw on Linux.

Run: python scripts/build_windows_clock.py [--check]

The files and their hashes (``SHA256SUMS``) are part of the package, because users have no compiler. The build is
reproducible: the same compiler makes the same bytes. ``--check`` builds into a temporary folder and compares.

The library for the game uses no C runtime and imports functions of kernel32 only, so it can be loaded before the first
instruction of the game.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "soulslab" / "siphon" / "clock" / "windows"
SUMS = "SHA256SUMS"
COMPILER = "x86_64-w64-mingw32-gcc"
#: Debian 12's package; another version may make other bytes.
COMPILER_PACKAGE = "gcc-mingw-w64-x86-64-win32"
MAX_BYTES = 16 * 1024
FLAGS = (
    *("-std=gnu11", "-Os", "-flto", "-ffreestanding", "-Wall", "-Wextra", "-Wshadow", "-Werror"),
    # Half of the time of a build is that of headers; these parts are not used.
    *("-DWIN32_LEAN_AND_MEAN", "-DNOGDI"),
    *("-fno-ident", "-fno-ipa-cp", "-fno-ipa-sra", "-fno-partial-inlining", "-frandom-seed=soulslab"),
    *("-shared", "-nostdlib", "-s", "-Wl,-e,DllMain", "-Wl,--no-insert-timestamp", "-Wl,--exclude-all-symbols"),
    # Otherwise the address depends on the path of the result.
    *("-Wl,--image-base,0x180000000", "-Wl,--dynamicbase", "-Wl,--nxcompat", "-Wl,--high-entropy-va"),
)
#: Further flags of the library for the game, which is the larger one.
SMALLER = ("-Oz", "-fwhole-program", "-fno-move-loop-invariants", "-fno-caller-saves", "-Wl,-T,sections.ld")
#: Sources of the library for the game, of the one for the controller, and of the one beside the game.
LIBRARIES = {
    "soulslab_clock.dll": (
        "attach.c",
        "changes.c",
        "pad.c",
        "threads.c",
        "timers.c",
        "times.c",
        "views.c",
        "waits.c",
    ),
    "soulslab_control.dll": ("control.c", "pages.c", "views.c"),
    "soulslab_xinput.dll": ("beside.c", "pages.c", "views.c", "beside.def"),
}


def build(folder: Path) -> None:
    """Build the libraries and the file with their hashes into a folder."""
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise SystemExit(f"{COMPILER} is not installed: sudo apt-get install {COMPILER_PACKAGE}")
    for name, sources in LIBRARIES.items():
        # Relative names, so that the place of the sources does not change the result.
        flags = (*FLAGS, *SMALLER) if "attach.c" in sources else FLAGS
        command = [compiler, *flags, "-o", str(folder / name), *sources, "-lkernel32"]
        subprocess.run(command, check=True, cwd=SOURCES, env={**os.environ, "LC_ALL": "C"})  # noqa: S603
        n_bytes = (folder / name).stat().st_size
        if n_bytes > MAX_BYTES:
            raise SystemExit(f"{name} has {n_bytes} bytes, more than {MAX_BYTES}")
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in LIBRARIES]
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def differences(folder: Path) -> list[str]:
    """Return the names of the files of the package that differ from those in a folder."""
    names = (*LIBRARIES, SUMS)
    return [name for name in names if (SOURCES / name).read_bytes() != (folder / name).read_bytes()]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files of the package")
    if not parser.parse_args().check:
        build(SOURCES)
        sys.stdout.write((SOURCES / SUMS).read_text(encoding="ascii"))
        return
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        if changed := differences(Path(folder)):
            raise SystemExit(f"not up to date: {', '.join(changed)}; run scripts/build_windows_clock.py")


if __name__ == "__main__":
    main()
