"""Names of scenarios: the names of soulslab's boss files, spelled as in EldenGym."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from soulslab.errors import EnvironmentUsageError, did_you_mean
from soulslab.games.boss_facts import boss_names

GAME = "elden_ring"
_VERSION = "-v0"


def scenario_names() -> Mapping[str, str]:
    """Return the name of the boss for the name of each scenario: ``margit`` for ``Margit-v0``."""
    return {f"{_camel_case(boss)}{_VERSION}": boss for boss in boss_names(GAME)}


def boss_of(scenario: str | Path) -> str | Path:
    """Return the boss of a scenario: its name, or the path of a boss file unchanged.

    ``Margit-v0``, ``Margit`` and ``margit`` name the same scenario, as in EldenGym's documentation.

    Raises:
        EnvironmentUsageError: The scenario does not exist; the message suggests a name.
    """
    if str(scenario).endswith(".toml"):
        return Path(scenario)
    known = scenario_names()
    by_name: dict[str, str] = {**known} | {name.removesuffix(_VERSION): boss for name, boss in known.items()}
    by_name |= {boss: boss for boss in known.values()}
    if not isinstance(scenario, str) or scenario not in by_name:
        raise EnvironmentUsageError(f"unknown scenario {scenario!r}{did_you_mean(str(scenario), known)}")
    return by_name[scenario]


def _camel_case(boss: str) -> str:
    return "".join(part.capitalize() for part in boss.split("_"))
