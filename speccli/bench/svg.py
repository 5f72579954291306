"""The report as a picture: tokens per second by category, a panel for each batch size, a bar for each way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from speccli.bench.compare import Row, Spread
from speccli.bench.report import Report
from speccli.bench.ways import PLAIN

WIDTH, PANEL_HEIGHT = 960, 250
LEFT, RIGHT, TOP, ABOVE, BELOW = 60, 20, 64, 34, 34
GREY = "#9aa5b1"
"""Of plain decoding."""
PALETTE = ("#2a78b8", "#e58a2b", "#3f9c5a", "#b5493f", "#7d63b0", "#8a6a4f", "#cf6aa8")
LETTER, LINE = 7.5, 20
"""How wide and how high a letter is at most, in pixels."""

STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}.small{font-size:11px;fill:#555}"
    ".grid{stroke:#ddd}.axis{stroke:#555}.spread{stroke:#222;stroke-width:1.2}"
)


class Panel(msgspec.Struct, frozen=True):
    """Where one batch size is drawn, and on which scale."""

    top: float
    most: float

    def y(self, value: float) -> float:
        room = PANEL_HEIGHT - ABOVE - BELOW
        return self.top + ABOVE + room * (1 - value / self.most)


def draw(report: Report) -> str:
    """An SVG document that stands for itself."""
    title = f"Decoding speed: {report.title}"
    colours = dict(zip((way for way in report.ways if way != PLAIN), itertools.cycle(PALETTE), strict=False))
    colours = {way: colours.get(way, GREY) for way in report.ways}
    legend, num_lines = _legend(colours)
    top = TOP + LINE * (num_lines - 1)
    height = top + PANEL_HEIGHT * len(report.batch_sizes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<title>{_escaped(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        _text(LEFT, 26, title, "title"),
        *legend,
    ]
    for number, batch_size in enumerate(report.batch_sizes):
        parts += _panel(report, batch_size, top + number * PANEL_HEIGHT, colours)
    return "\n".join([*parts, "</svg>", ""])


def nice_ceiling(value: float) -> float:
    """The next 1, 2, 2.5 or 5 times a power of ten: an axis that ends there has round gridlines."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def _legend(colours: dict[str, str]) -> tuple[list[str], int]:
    """What each colour stands for, and the number of lines that this takes."""
    parts: list[str] = []
    x, line = float(LEFT), 0
    for way, colour in colours.items():
        width = 17 + LETTER * len(way)
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, line = float(LEFT), line + 1
        parts.append(f'<rect x="{x:.0f}" y="{40 + LINE * line}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(x + 17, 51 + LINE * line, way))
        x += width + 24
    return parts, line + 1


def _panel(report: Report, batch_size: int, top: float, colours: dict[str, str]) -> Iterator[str]:
    rows = [row for row in report.shown if row.batch_size == batch_size and row.decode_tokens_per_s]
    panel = Panel(top, nice_ceiling(max((_speed(row).high for row in rows), default=0.0)))
    categories = report.categories(batch_size)
    yield _text(LEFT, top + 20, f"batch {batch_size}, tokens/s")
    yield from _grid(panel)
    group = (WIDTH - LEFT - RIGHT) / max(len(categories), 1)
    for number, category in enumerate(categories):
        x = LEFT + number * group
        yield _text(x + group / 2, panel.y(0) + 18, _shortened(category, group), anchor="middle")
        yield from _group([row for row in rows if row.category == category], x, group, panel, colours)
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{panel.y(0):.1f}" y2="{panel.y(0):.1f}"/>'


def _grid(panel: Panel) -> Iterator[str]:
    for quarter in range(1, 5):
        value = panel.most * quarter / 4
        y = panel.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 8, y + 4, f"{value:g}", "small", anchor="end")


def _group(rows: Sequence[Row], x: float, width: float, panel: Panel, colours: dict[str, str]) -> Iterator[str]:
    """The bars of one category, each with the spread of its repeats."""
    size = min(36.0, width * 0.8 / max(len(colours), 1))
    left = x + (width - size * len(colours)) / 2
    places = {way: left + number * size for number, way in enumerate(colours)}
    for row in rows:
        speed, at = _speed(row), places[row.way]
        said = f"{row.way}, {row.category}: {speed.median:.1f} tokens/s"
        if row.speedup is not None:
            said += f", {row.speedup.median:.2f} times plain"
        y = panel.y(speed.median)
        yield (
            f'<rect class="bar" x="{at:.1f}" y="{y:.1f}" width="{size - 2:.1f}" height="{panel.y(0) - y:.1f}" '
            f'fill="{colours[row.way]}"><title>{_escaped(said)}</title></rect>'
        )
        middle = at + size / 2 - 1
        yield (
            f'<line class="spread" x1="{middle:.1f}" x2="{middle:.1f}" y1="{panel.y(speed.low):.1f}" '
            f'y2="{panel.y(speed.high):.1f}"/>'
        )


def _shortened(name: str, width: float) -> str:
    most = max(2, int(width / LETTER))
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _speed(row: Row) -> Spread:
    return row.decode_tokens_per_s or Spread(0.0, 0.0, 0.0)


def _text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escaped(said)}</text>'


def _escaped(said: str) -> str:
    """XML knows no control characters, however they are written."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in said))
