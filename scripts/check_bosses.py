"""Write the results of the fairness checks of generated bosses: ``src/soulslab/arena/checked_bosses.toml``.

::

    python scripts/check_bosses.py 0-511 2000-2063 5000-5063

The file then has the bosses of these seeds, which are made without their checks. Run this again for all seeds of the
file if the family or the rules change (`soulslab.arena.boss_generator.VERSION`).
"""

from __future__ import annotations

import sys

from soulslab.arena.boss_catalog import generated_seeds
from soulslab.arena.boss_generator import CHECKED_FILE, VERSION, check_boss

HEADER = """\
# Results of the fairness checks of generated bosses (scripts/check_bosses.py): the number of unfair bosses that were
# drawn before the fair one, and its damage scale in both phases.

"""


def main(*ranges: str) -> None:
    """Check the bosses of ranges of seeds, and write the file."""
    names = {given: generated_seeds(f"generated:{given}") for given in ranges}
    if not names or None in names.values():
        raise SystemExit("usage: python scripts/check_bosses.py FIRST-LAST...")
    results: dict[int, str] = {}
    for given, seeds in names.items():
        for seed in seeds or ():
            n_unfair, boss = check_boss(seed)
            results[seed] = f"{seed} = [{n_unfair}, {boss.damage_scale[0]}, {boss.damage_scale[1]}]\n"
        sys.stdout.write(f"{given}: {len(results)} bosses so far\n")
    lines = [results[seed] for seed in sorted(results)]
    CHECKED_FILE.write_text(f"{HEADER}version = {VERSION}\n\n[bosses]\n{''.join(lines)}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
