"""A settings type that uses all supported types."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    """A nested table.

    Attributes:
        mode: Not shown: the field's own description comes first.
        widths: Units of each layer,
            first to last.
    """

    removed: ClassVar[tuple[str, ...]] = ("warmup",)

    lr: Annotated[float, Meta(gt=0, le=1, description="Learning rate.")] = 3e-4
    n_epochs: Annotated[int, Meta(ge=1, description="Passes over the data.")] = 4
    mode: Annotated[Literal["fast", "exact"], Meta(description="How.")] = "fast"
    widths: tuple[Annotated[int, Meta(ge=1)], ...] = (128, 128)


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    name: Annotated[str, Meta(min_length=1)] = "x"
    is_on: bool = False
    limit: int | None = None
    learner: Inner = Inner()
    options: dict[str, Any] = {}
    weights: dict[str, float] = {}
    stages: list[Inner] = []
    maybe: Inner | None = None
