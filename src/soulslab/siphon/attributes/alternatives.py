"""Selection among the variants of an attribute and among the lists of an entity, and examination of all variants.

A variant is an attribute's own definition or one of its alternatives. The first variant that can be read and gives a
plausible value is selected. A variant is ruled out by a value outside the range, an invalid pointer, or a pattern
without a match. A null pointer or a missing entity rules nothing out, because the game may be loading: a later variant
with a plausible value is then used for this read only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

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


class AlternativeSelection:
    """Selects one of the variants of an attribute: `variant` is read now, for the whole session if `is_decided`."""

    def __init__(self, name: str, variants: Sequence[Attribute]) -> None:
        self.name = name
        self.variant = variants[0]
        self.is_decided = False
        self._variants = tuple(variants)
        self._problems: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Source of the selected variant; "" before the selection is final."""
        return self.variant.source if self.is_decided else ""

    def look(self, read: Callable[[Attribute], Value]) -> None:
        """Try the variants in order until one gives a plausible value. Raises `UndecidedAttributeError` for none."""
        problems: list[str] = []
        may_be_loading = False
        for variant in self._variants:
            try:
                value = read(variant)
            except (PatternError, PointerError, ImplausibleValueError, EntityNotFoundError) as error:
                problems.append(f"{variant.source}: {error}")
                may_be_loading = may_be_loading or _may_be_loading(error)
            else:
                self._take(variant, value, problems, is_decided=not may_be_loading)
                return
        raise UndecidedAttributeError(
            self.name, f"none of its {len(self._variants)} variants gives a plausible value", problems
        )

    def undecided(self) -> UndecidedAttributeError:
        """Return the error for a write before the selection is final."""
        return UndecidedAttributeError(
            self.name,
            "nothing was written, as the variant that holds is not known yet; an earlier one may only be loading",
            self._problems,
        )

    def _take(self, variant: Attribute, value: Value, problems: Sequence[str], *, is_decided: bool) -> None:
        is_news = is_decided or variant is not self.variant or tuple(problems) != self._problems
        self.variant, self.is_decided, self._problems = variant, is_decided, tuple(problems)
        if is_news:
            # The first variant is the expected one, and there are dozens of such attributes.
            level = logging.INFO if problems or not is_decided else logging.DEBUG
            what = "holds" if is_decided else "is read for the time being"
            others = f"; passed over: {'; '.join(problems)}" if problems else ""
            _log.log(level, "attribute %r: %r %s, as it gives %r%s", self.name, variant.source, what, value, others)


def _may_be_loading(error: SiphonError) -> bool:
    return isinstance(error, EntityNotFoundError) or (isinstance(error, PointerError) and error.is_null)


class ListSelection:
    """Selects the list of each entity: the first list that contains the entity, for the rest of the session.

    Data at a wrong address is rarely a list and never contains the entity. If no list contains it, the game may be
    loading: nothing is decided, and the next read tries again. `now` has the selected definition of each entity.
    """

    def __init__(self, variants: Mapping[str, Sequence[Entity]]) -> None:
        self.now = {name: of[0] for name, of in variants.items()}
        self._open = {name: tuple(of) for name, of in variants.items() if len(of) > 1}

    def look(self, name: str, find: Callable[[Entity], object]) -> None:
        """Select the list of an entity, unless it is selected already.

        `find` searches the list of a definition. Raises `EntityNotFoundError` if no list contains the entity, and
        `PointerError` if no list can be reached now.
        """
        problems: list[EntityNotFoundError | PointerError] = []
        for variant in self._open.get(name, ()):
            try:
                find(variant)
            except (EntityNotFoundError, PointerError) as error:
                problems.append(error)
            else:
                self.now[name] = variant
                del self._open[name]
                _log.info("entity %r: the list of %r has it", name, variant.source)
                return
        if not problems:
            return
        counts = [problem.n_entities for problem in problems if isinstance(problem, EntityNotFoundError)]
        if not counts:
            raise problems[0]
        told = "; ".join(
            f"{variant.source}: {str(problem).removeprefix(f'entity {name!r}: ')}"
            for variant, problem in zip(self._open[name], problems, strict=True)
        )
        raise EntityNotFoundError(name, f"it is in none of its {len(problems)} lists ({told})", max(counts))


Trouble: TypeAlias = Literal["", "loading", "pointer", "range", "code"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Result of reading one variant of an attribute.

    Attributes:
        trouble: "" if the value is plausible; ``loading`` if a pointer is null or an entity does not exist, as in a
            menu; ``pointer`` if a pointer leads to no memory; ``range`` if the value is implausible; ``code`` if a
            pattern has no match.
        problem: Text of the error; "" without trouble.
        address: Address of the value; 0 if it was not reached.
    """

    source: str
    trouble: Trouble = ""
    problem: str = ""
    address: int = 0
    value: Value = None


def examine_variant(source: str, read: Callable[[], Value], address: Callable[[], int]) -> Finding:
    """Read one variant of an attribute, and the address that it was read from."""
    try:
        value = read()
        return Finding(source=source, address=address(), value=value)
    except ImplausibleValueError as error:
        return Finding(source=source, trouble="range", problem=str(error), address=address(), value=error.value)
    except PatternError as error:
        return Finding(source=source, trouble="code", problem=str(error))
    except (PointerError, EntityNotFoundError) as error:
        return Finding(source=source, trouble="loading" if _may_be_loading(error) else "pointer", problem=str(error))
