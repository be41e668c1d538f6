"""Which of several lists an entity is in: the first in which it is found, for the rest of the session.

What lies at a wrong place is hardly ever a list, and never has the entity. Where none has it, the game may be loading:
nothing is decided, and the next read looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from soulslab.errors import EntityNotFoundError, PointerError
from soulslab.siphon.profile import Entity

_log = logging.getLogger(__name__)


class ListChoice:
    """The choice between the places of the lists of some entities.

    Args:
        ways: Of each entity, those that are for the version of the game, in the order in which they are tried.

    Attributes:
        now: Of each entity, the one to go now.
    """

    def __init__(self, ways: Mapping[str, Sequence[Entity]]) -> None:
        self.now = {name: of[0] for name, of in ways.items()}
        self._open = {name: tuple(of) for name, of in ways.items() if len(of) > 1}

    def look(self, name: str, find: Callable[[Entity], object]) -> None:
        """Find out which list of an entity has it, unless that is decided.

        Args:
            name: Of the entity.
            find: Finds it in its list, or raises.

        Raises:
            EntityNotFoundError: None has it.
            PointerError: The way to all of them leads nowhere now.
            ProcessExitedError: The game has ended.
        """
        problems: list[EntityNotFoundError | PointerError] = []
        for way in self._open.get(name, ()):
            try:
                find(way)
            except (EntityNotFoundError, PointerError) as error:
                problems.append(error)
            else:
                self.now[name] = way
                del self._open[name]
                _log.info("entity %r: the list of %r has it", name, way.source)
                return
        if not problems:
            return
        counts = [problem.n_entities for problem in problems if isinstance(problem, EntityNotFoundError)]
        if not counts:
            raise problems[0]
        told = "; ".join(
            f"{way.source}: {str(problem).removeprefix(f'entity {name!r}: ')}"
            for way, problem in zip(self._open[name], problems, strict=True)
        )
        raise EntityNotFoundError(name, f"it is in none of its {len(problems)} lists ({told})", max(counts))
