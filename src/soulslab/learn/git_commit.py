"""The git commit of the running soulslab, for the headers of files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import soulslab


def git_commit() -> str:
    """Return the commit of the checkout that soulslab runs from.

    Returns:
        40 hex digits, with ``+`` appended if tracked files were changed; ``""`` for an installed package.
    """
    package = Path(soulslab.__file__).parent
    checkout = package.parent.parent
    git = shutil.which("git")
    # An installed package may be inside another repository, whose commit does not describe it.
    if git is None or not (checkout / ".git").exists() or package != checkout / "src" / "soulslab":
        return ""

    def ask(*arguments: str) -> str | None:
        answer = subprocess.run(  # noqa: S603  fixed program and arguments
            [git, "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    changed = ask("status", "--porcelain", "--untracked-files=no")
    return f"{commit}{'+' if changed else ''}" if commit else ""
