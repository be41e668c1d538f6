"""Writes ``constraints.txt`` from what is installed; run it after trying newer packages: ``make pin``.

To raise every version: ``.venv/bin/pip install --upgrade -e .[learn,peers,dev,docs]``, then
``make pin``, then ``make check test``.
"""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
NOT_PINNED = {
    "soulslab",
    "pip",
    "setuptools",
    "wheel",
}  # ourselves, and what belongs to the virtual environment
HEADER = """\
# Exact versions of every package that soulslab is built, tested and measured with. Written by scripts/pin.py.
"""


def installed() -> list[str]:
    """Return a line ``name==version`` for each package that is installed here, sorted by name.

    The part of a version after "+" is left out: it names a build (torch's "+cpu"), and which one fits is for
    the machine to say.
    """
    versions = {found.name: found.version.partition("+")[0] for found in distributions()}
    return [f"{name}=={versions[name]}" for name in sorted(versions, key=str.lower) if name not in NOT_PINNED]


if __name__ == "__main__":
    CONSTRAINTS.write_text(HEADER + "\n".join(installed()) + "\n", encoding="utf-8")
