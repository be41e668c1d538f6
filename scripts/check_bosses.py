"""Write the results of the fairness checks of generated bosses: ``src/soulslab/arena/checked_bosses.toml``.

::

    python scripts/check_bosses.py 0-511 2000-2063 5000-5063

The file then has the bosses of these seeds, which are made without their checks. Run this again for all seeds of the
file if the family or the rules change (`soulslab.arena.boss_generator.VERSION`).
"""

from __future__ import annotations

import sys

from soulslab.arena.boss_catalog import generated_seeds
from soulslab.arena.boss_generator import CHECKED_FILE, check_boss

HEADER = """\
# Results of the fairness checks of generated bosses (scripts/check_bosses.py): the number of unfair bosses that were
# drawn before the fair one, and its damage scale in both phases.

[bosses]
"""


def main(*ranges: str) -> None:
    """Check the bosses of ranges of seeds, and write the file."""
    lines = []
    for given in ranges:
        for seed in generated_seeds(f"generated:{given}") or ():
            n_unfair, boss = check_boss(seed)
            lines.append(f"{seed} = [{n_unfair}, {boss.damage_scale[0]}, {boss.damage_scale[1]}]\n")
        sys.stdout.write(f"{given}: {len(lines)} bosses so far\n")
    CHECKED_FILE.write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
