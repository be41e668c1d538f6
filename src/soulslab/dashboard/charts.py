"""Options of the ECharts diagrams, in the colours of the theme.

People with a colour deficiency can distinguish the colours of the palettes. The first ones are those of Okabe & Ito
2008, "Color universal design", with lighter tones for dark backgrounds; the others were chosen for the largest distance
to them, as people with a missing type of cone see them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulslab.dashboard.downsampling import important_points

FONT: Final = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, DejaVu Sans, sans-serif"
"""Fonts of the text in charts; a canvas does not inherit those of the page."""

N_POINTS: Final = 480
"""Largest number of points of a line; about as many as a chart has columns of pixels."""


class Theme(NamedTuple):
    """Colours of charts."""

    lines: tuple[str, ...]
    ink: str
    faint: str
    grid: str
    surface: str


LIGHT: Final = Theme(
    ("#0072b2", "#d55e00", "#009e73", "#b3468f", "#5e3d16", "#543cb3", "#21276c", "#4c4246"),
    "#1d2733",
    "#5b6770",
    "#e3e7ec",
    "#ffffff",
)
DARK: Final = Theme(
    ("#56b4e9", "#ff8c4a", "#2bc49a", "#e59ac7", "#e3ff7d", "#8074e2", "#348a78", "#b0f7a1"),
    "#e6edf3",
    "#98a4b0",
    "#2a333d",
    "#161c23",
)

_DASHES: Final = ("solid", "dashed", "dotted")

AXIS_TITLES: Final = {
    "decisions": "game decisions",
    "game time": "game time (h)",
    "training time": "training time (s)",
    "wall time": "time of day",
    "updates": "updates",
}

#: Expressions of JavaScript, because the browser knows the language and the time zone of the viewer.
_SHORT_NUMBER: Final = (
    "value => Math.abs(value) >= 1e6 ? +(value / 1e6).toPrecision(4) + ' M' : Math.abs(value) >= 1e4 ? "
    "+(value / 1e3).toPrecision(4) + ' k' : String(+Number(value).toPrecision(4))"
)


class Line(NamedTuple):
    """A line of a chart, with the ends of its intervals if they are known; all (T,)."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    has_marks: bool = False


def chart_options(title: str, unit: str, axis: str, lines: Sequence[Line], theme: Theme) -> dict[str, Any]:
    """Return the options of a line chart; see `line_series` for the series."""
    label = f"{title} ({unit})" if unit else title
    x_axis: dict[str, Any] = {
        "type": "time" if axis == "wall time" else "value",
        "min": "dataMin" if axis == "wall time" else 0,
        "max": "dataMax",
        "name": AXIS_TITLES.get(axis, axis),
        "nameLocation": "middle",
        "nameGap": 26,
        "nameTextStyle": {"color": theme.faint},
        "axisLabel": {"color": theme.faint, "hideOverlap": True, "showMaxLabel": False},
        "axisLine": {"lineStyle": {"color": theme.faint}},
        "splitLine": {"show": False},
    }
    y_axis: dict[str, Any] = {
        "type": "value",
        "scale": True,
        "axisLabel": {"color": theme.faint, ":formatter": _SHORT_NUMBER},
        "splitLine": {"lineStyle": {"color": theme.grid}},
    }
    if axis != "wall time":
        x_axis["axisLabel"][":formatter"] = _SHORT_NUMBER
    if unit == "%":
        y_axis |= {"min": 0, "max": 100, "scale": False}
    return {
        "animation": False,
        "color": list(theme.lines),
        "textStyle": {"fontFamily": FONT},
        "aria": {"enabled": True, "label": {"description": label}},
        "title": {
            "text": label,
            "left": 0,
            "top": 0,
            "textStyle": {"fontSize": 14, "fontWeight": 600, "color": theme.ink},
        },
        "legend": _legend(lines, theme),
        "grid": {"left": 4, "right": 14, "top": 52, "bottom": 22, "containLabel": True},
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "backgroundColor": theme.surface,
            "borderColor": theme.grid,
            "textStyle": {"color": theme.ink},
            ":valueFormatter": _SHORT_NUMBER,
            "axisPointer": {"label": {":formatter": "p => " + _pointer_text(axis)}},
        },
        "xAxis": x_axis,
        "yAxis": y_axis,
        "series": line_series(lines, theme),
    }


def _legend(lines: Sequence[Line], theme: Theme) -> dict[str, Any]:
    # More lines than colours are distinguished by their dashes, which ECharts shows in the legend without an icon.
    icon = {"itemWidth": 14, "icon": "roundRect"} if len(lines) <= len(theme.lines) else {"itemWidth": 28}
    return {
        "type": "scroll",
        "top": 19,
        "left": 0,
        "itemHeight": 8,
        **icon,
        # The height keeps a legend with several pages from being cut off.
        "textStyle": {"color": theme.faint, "lineHeight": 18},
        "pageTextStyle": {"color": theme.faint},
        "data": [line.name for line in lines],
    }


def line_series(lines: Iterable[Line], theme: Theme) -> list[dict[str, Any]]:
    """Return the series of a chart: for each line its points, at most `N_POINTS`, and the area of its intervals."""
    series: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        known = np.isfinite(line.x) & np.isfinite(line.y)
        index = np.flatnonzero(known)[important_points(line.y[known], N_POINTS)]
        x, y, colour = line.x[index], line.y[index], theme.lines[number % len(theme.lines)]
        dashes = _DASHES[number // len(theme.lines) % len(_DASHES)]
        series.append(
            {
                "type": "line",
                "name": line.name,
                "data": _points(x, y),
                "showSymbol": line.has_marks or len(index) < 3,
                "symbol": "circle",
                "symbolSize": 6,
                "lineStyle": {"width": 1.8, "color": colour, "type": dashes},
                "itemStyle": {"color": colour},
                "z": 3,
            }
        )
        if line.low is not None and line.high is not None:
            series += _band(line.name, x, line.low[index], line.high[index], colour)
    return series


def bar_options(title: str, unit: str, names: Sequence[str], shares: Sequence[float], theme: Theme) -> dict[str, Any]:
    """Return the options of a chart with a horizontal bar for each name, the first one on top."""
    return {
        "animation": False,
        "color": list(theme.lines),
        "textStyle": {"fontFamily": FONT},
        "aria": {"enabled": True, "label": {"description": title}},
        "title": {
            "text": f"{title} ({unit})",
            "left": 0,
            "top": 0,
            "textStyle": {"fontSize": 14, "fontWeight": 600, "color": theme.ink},
        },
        "grid": {"left": 16, "right": 48, "top": 30, "bottom": 4, "containLabel": True},
        "tooltip": {
            "confine": True,
            "backgroundColor": theme.surface,
            "borderColor": theme.grid,
            "textStyle": {"color": theme.ink},
        },
        "xAxis": {"type": "value", "axisLabel": {"show": False}, "splitLine": {"show": False}},
        "yAxis": {
            "type": "category",
            "inverse": True,
            "data": list(names),
            "axisLabel": {"color": theme.ink, "interval": 0, "fontSize": 11},
            "axisTick": {"show": False},
            "axisLine": {"show": False},
        },
        "series": [
            {
                "type": "bar",
                "name": title,
                "data": [round(share, 1) for share in shares],
                "barCategoryGap": "30%",
                "barMaxWidth": 22,
                "itemStyle": {"color": theme.lines[0], "borderRadius": [0, 3, 3, 0]},
                "label": {"show": True, "position": "right", "color": theme.faint, "fontSize": 11},
            }
        ],
    }


def _band(
    name: str, x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], colour: str
) -> list[dict[str, Any]]:
    """Return two stacked series without lines: the lower ends, and above them the area up to the upper ends."""
    base: dict[str, Any] = {
        "type": "line",
        "stack": f"interval of {name}",
        "stackStrategy": "all",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "silent": True,
        "tooltip": {"show": False},
        "z": 1,
    }
    area = {"color": colour, "opacity": 0.18}
    return [
        {**base, "name": f"{name}, lower end", "data": _points(x, low)},
        {**base, "name": f"{name}, interval", "data": _points(x, high - low), "areaStyle": area},
    ]


def _pointer_text(axis: str) -> str:
    if axis == "wall time":
        return "new Date(p.value).toLocaleString()"
    # The name of a setting of a study may come from a foreign file, and this is a script.
    return f"({_SHORT_NUMBER})(p.value) + {json.dumps(f' {AXIS_TITLES.get(axis, axis)}')}"


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[list[float]]:
    return [[_rounded(a, 12), _rounded(b)] for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _rounded(value: float, n_digits: int = 6) -> float:
    """Return a number with at most this many significant digits, because every digit is sent to the browser."""
    return float(f"{value:.{n_digits}g}")
