"""Which of several ways to an attribute holds in a game: the first that can be read and gives a plausible value.

A way is ruled out by what it leads to: a value outside the range, a pointer that is none, a pattern that is not there.
A null pointer, or an entity that is not in its list, rules nothing out, as the game may be loading; a way behind it
that gives a plausible value is then gone for the time being, and the question stays open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from soulslab.errors import (
    EntityNotFoundError,
    ImplausibleValueError,
    PatternError,
    PointerError,
    SiphonError,
    UndecidedAttributeError,
)
from soulslab.siphon.profile import Attribute, Entity, Value

_log = logging.getLogger(__name__)


class Choice:
    """The choice between the ways to one attribute.

    Args:
        name: Of the attribute.
        ways: Of which each is complete, in the order in which they are tried.

    Attributes:
        way: The one to go now.
        is_decided: It holds for the session.
    """

    def __init__(self, name: str, ways: Sequence[Attribute]) -> None:
        self.name = name
        self.way = ways[0]
        self.is_decided = False
        self._ways = tuple(ways)
        self._problems: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The source that holds; "" before that is decided."""
        return self.way.source if self.is_decided else ""

    def look(self, read: Callable[[Attribute], Value]) -> None:
        """Try the ways until one gives a plausible value.

        Args:
            read: Reads the attribute by a way.

        Raises:
            UndecidedAttributeError: None does.
            ProcessExitedError: The game has ended.
        """
        problems: list[str] = []
        may_be_loading = False
        for way in self._ways:
            try:
                value = read(way)
            except (PatternError, PointerError, ImplausibleValueError, EntityNotFoundError) as error:
                problems.append(f"{way.source}: {error}")
                may_be_loading = may_be_loading or _may_be_loading(error)
            else:
                self._take(way, value, problems, is_decided=not may_be_loading)
                return
        raise UndecidedAttributeError(
            self.name, f"none of its {len(self._ways)} ways gives a plausible value", problems
        )

    def undecided(self) -> UndecidedAttributeError:
        """Return the error for a write by a way that may turn out to be the wrong one."""
        return UndecidedAttributeError(
            self.name,
            "nothing was written, as it cannot be told yet which of its ways holds; an earlier one may only be loading",
            self._problems,
        )

    def _take(self, way: Attribute, value: Value, problems: Sequence[str], *, is_decided: bool) -> None:
        is_news = is_decided or way is not self.way or tuple(problems) != self._problems
        self.way, self.is_decided, self._problems = way, is_decided, tuple(problems)
        if is_news:
            # That the first way holds is as expected, and there are dozens of such attributes.
            level = logging.INFO if problems or not is_decided else logging.DEBUG
            _log.log(
                level,
                "attribute %r: %r %s, as it gives %r%s",
                self.name,
                way.source,
                "holds" if is_decided else "is read for the time being",
                value,
                f"; passed over: {'; '.join(problems)}" if problems else "",
            )


def _may_be_loading(error: SiphonError) -> bool:
    """Tell whether a way that failed may be right once the game has loaded."""
    return isinstance(error, EntityNotFoundError) or (isinstance(error, PointerError) and error.is_null)


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
