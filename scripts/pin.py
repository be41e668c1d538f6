"""Writes ``constraints.txt`` from what is installed; run it after trying newer packages: ``make pin``.

To raise every version: ``.venv/bin/pip install --upgrade -e .[siphon,window,learn,tune,peers,dev,docs]``, then
``make pin``, then ``make check test``. Use the oldest Python that soulslab runs on, as packages drop old ones
all the time.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
ROOT_PACKAGE = "soulslab[siphon,window,learn,tune,peers,dev,docs]"
# They belong to the virtual environment; torch asks for setuptools only on newer Pythons.
NOT_PINNED = {"soulslab", "pip", "setuptools", "wheel"}
HEADER = """\
# Exact versions of every package that soulslab is built, tested and measured with. Written by scripts/pin.py.
"""


def pins() -> dict[str, str]:
    """Return the installed version of each package that soulslab needs, directly or not.

    The part of a version after "+" is left out: it names a build (torch's "+cpu"), and which one fits is for the
    machine to say.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [Requirement(ROOT_PACKAGE)]
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        installed = distribution(wanted.name)
        found[canonicalize_name(wanted.name)] = installed.version.partition("+")[0]
        for text in installed.requires or []:
            needed = Requirement(text)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return {name: found[name] for name in sorted(found) if name not in NOT_PINNED}


if __name__ == "__main__":
    lines = [f"{name}=={version}\n" for name, version in pins().items()]
    CONSTRAINTS.write_text(HEADER + "".join(lines), encoding="utf-8")
