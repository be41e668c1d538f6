"""Draw how a boss's health is found in the memory of the built-in fight: ``docs/images/memory_layout.svg``.

::

    .venv/bin/python scripts/memory_picture.py

The picture shows the memory layout that Elden Ring's profile gives. Only the addresses of the heaps are examples, as
the system chooses them in each process.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from soulslab.arena.window.memory.layout import FIGHT, PROGRAM, Layout, Pointer, synthesise
from soulslab.games.elden_ring import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.pattern import Pattern

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "memory_layout.svg"
STARTS = (0x1_4000_0000, 0x7F51_2C00_0000, 0x7F51_2C40_0000)
FIXED, OPERAND, CELL, INK = "#dbe7f4", "#f7d9b0", "#ffffff", "#1f2933"
ROW, FONT = 0.42, 9.5


def main() -> None:
    """Draw the picture."""
    mpl.rcParams.update({"svg.fonttype": "none", "font.family": "DejaVu Sans Mono", "svg.hashsalt": "soulslab"})
    figure = Figure(figsize=(12.4, 6.3), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 12.4)
    axes.set_ylim(0.3, 6.6)
    axes.axis("off")
    profile = load_profile(PROFILE_PATH)
    layout = synthesise(profile)
    _draw_code(axes, layout, profile.bases["world"].pattern)
    _draw_chain(axes, layout)
    figure.savefig(PICTURE, metadata={"Date": None})


def _draw_code(axes: Axes, layout: Layout, text: str) -> None:
    """Draw the code that the pattern of the base ``world`` finds, and the target of its operand."""
    pattern = Pattern.parse(text)
    start, code = next((place.offset, data) for place, data in layout.constants if place.region == PROGRAM)
    at = next(i for i in range(len(code)) if _matches(pattern, code[i : i + len(pattern)]))
    door = next(one for one in layout.fight_pointers)
    axes.text(0.3, 6.25, f"the program  {STARTS[PROGRAM]:#x}", fontsize=11, weight="bold", color=INK)
    axes.text(0.3, 5.85, f".text + {at:#x}: code that the pattern finds", fontsize=FONT, color=INK)
    for i, byte in enumerate(code[at : at + len(pattern)]):
        box = Rectangle((0.3 + i * ROW, 5.3), ROW, ROW, facecolor=FIXED if pattern.masks[i] else OPERAND, edgecolor=INK)
        axes.add_patch(box)
        axes.text(0.3 + (i + 0.5) * ROW, 5.51, f"{byte:02X}", ha="center", va="center", fontsize=FONT, color=INK)
    displacement = int.from_bytes(code[at + 3 : at + 7], "little", signed=True)
    operand = STARTS[PROGRAM] + start + at + 7 + displacement
    behind = STARTS[PROGRAM] + start + at + 7
    axes.text(2.0, 4.95, "mov rax, [rip + displacement]: relative", fontsize=FONT, color=INK)
    axes.text(2.0, 4.65, f"to the instruction's end, {behind:#x} + {displacement:#x}", fontsize=FONT, color=INK)
    axes.text(0.3, 3.95, ".data: a cell of the program", fontsize=FONT, color=INK)
    _cell(axes, (0.3, 3.4), f"{operand:#x}", f"{_target(door):#x}")
    axes.text(0.3, 3.05, "null while the game loads", fontsize=FONT, color=INK)
    _arrow(axes, (0.3 + 3.5 * ROW, 5.3), (0.3 + 3.5 * ROW, 4.15))


def _draw_chain(axes: Axes, layout: Layout) -> None:
    """Draw the objects from the world to the boss's health."""
    pointers = {(one.at.region, one.at.offset): one for one in layout.pointers}
    world = next(one for one in layout.fight_pointers).to.offset
    begin, end = (pointers[FIGHT, world + offset] for offset in (0x1F1B8, 0x1F1C0))
    axes.text(7.2, 6.25, "objects on the heap, new ones for each fight", fontsize=11, weight="bold", color=INK)
    axes.text(7.2, 5.85, f"the world  {STARTS[FIGHT] + world:#x}", fontsize=FONT, color=INK)
    _cell(axes, (7.2, 5.3), "+0x1f1b8", f"begin {_target(begin):#x}")
    _cell(axes, (7.2, 5.3 - ROW), "+0x1f1c0", f"end   {_target(end):#x}")
    axes.text(7.2, 4.5, "its list of enemies", fontsize=FONT, color=INK)
    slots = range(begin.to.offset, end.to.offset, 8)
    margit = layout.places["boss.hp"]
    y = 4.0
    for i, slot in enumerate(slots):
        one = pointers.get((FIGHT, slot))
        holds = f"{_target(one):#x}" if one else "0"
        _cell(axes, (7.2, y - i * ROW), f"[{i}]", holds, note=_entity_id(layout, one))
    chosen = next(i for i, slot in enumerate(slots) if "10000850" in _entity_id(layout, pointers.get((FIGHT, slot))))
    boss = pointers[FIGHT, slots[chosen]]
    modules = pointers[FIGHT, boss.to.offset + 0x190]
    data = pointers[FIGHT, modules.to.offset]
    axes.text(7.2, 2.0, f"Margit  {_target(boss):#x}", fontsize=FONT, color=INK)
    _cell(axes, (7.2, 1.5), "+0x190", f"{_target(modules):#x}", note="modules")
    _cell(axes, (7.2, 1.5 - ROW), "+0x1e8", "10000850", note="id, u32")
    axes.text(0.3, 2.0, f"modules  {_target(modules):#x}", fontsize=FONT, color=INK)
    _cell(axes, (0.3, 1.5), "+0x0", f"{_target(data):#x}", note="data")
    axes.text(0.3, 1.05, f"data  {_target(data):#x}", fontsize=FONT, color=INK)
    _cell(axes, (0.3, 0.55), f"+{margit.offset - data.to.offset:#x}", "1037", note="boss.hp, i32")
    _arrow(axes, (4.45, 3.6), (7.1, 5.4))
    _arrow(axes, (11.15, 5.5), (11.15, 4.44))
    _arrow(axes, (7.15, 4.2 - chosen * ROW), (7.15, 2.06), bend=True)
    _arrow(axes, (7.1, 1.7), (4.4, 2.05))
    _arrow(axes, (0.25, 1.6), (0.25, 1.1), bend=True)


def _matches(pattern: Pattern, code: bytes) -> bool:
    return len(code) == len(pattern) and all(
        byte & mask == value for byte, mask, value in zip(code, pattern.masks, pattern.values, strict=True)
    )


def _target(pointer: Pointer) -> int:
    return STARTS[pointer.to.region] + pointer.to.offset


def _entity_id(layout: Layout, pointer: Pointer | None) -> str:
    """Return the id of the entity that a slot points to."""
    if pointer is None:
        return "null"
    ids = {place.offset: data for place, data in layout.constants if place.region == FIGHT and len(data) == 4}
    return f"id {int.from_bytes(ids[pointer.to.offset + 0x1E8], 'little')}"


def _cell(axes: Axes, corner: tuple[float, float], label: str, content: str, note: str = "") -> None:
    """Draw a cell with its address, its content, and the meaning of the content."""
    x, y = corner
    axes.add_patch(Rectangle((x, y), 1.5, ROW, facecolor=FIXED, edgecolor=INK))
    axes.add_patch(Rectangle((x + 1.5, y), 2.6, ROW, facecolor=CELL, edgecolor=INK))
    for at, text in ((x + 0.1, label), (x + 1.6, content), (x + 4.2, note)):
        axes.text(at, y + ROW / 2, text, va="center", fontsize=FONT, color=INK)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], *, bend: bool = False) -> None:
    style = "arc3,rad=0.5" if bend else "arc3,rad=0"
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "->", "color": "#b3541e", "lw": 1.6, "connectionstyle": style}
    )


if __name__ == "__main__":
    main()
