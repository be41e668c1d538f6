"""``python -m soulslab``: the command ``soulslab``."""

from soulslab.cli import main

main()
