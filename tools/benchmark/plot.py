# SPDX-License-Identifier: BSD-3-Clause
"""Plots as SVG, written as text: bars in groups, and lines over a logarithmic axis."""

import html
import math
import textwrap

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#9c6b4e", "#a463f2", "#97bbf5", "#9498a0", "#3ca951", "#ff8ab7")
WIDTH, LEFT, RIGHT, TOP, PLOT_HEIGHT = 860, 84, 20, 56, 280
# Of a letter, at most, on average: at 12 px in DejaVu, the widest of the usual fonts.
LETTER, LINE = 7.4, 15
LINES_OF_A_LABEL = 3


def _text(x, y, words, anchor="start", size=12, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{html.escape(str(words))}</text>'


def _colour(i):
    return COLOURS[i % len(COLOURS)]


def _is_hatched(i):
    """Colours come twice: the second time hatched, or dashed."""
    return i // len(COLOURS) % 2 == 1


def _fill(i):
    return f"url(#hatched-{i})" if _is_hatched(i) else _colour(i)


def _hatching(i):
    return (f'<pattern id="hatched-{i}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="5" height="5" fill="{_colour(i)}"/><rect width="2" height="5" fill="white"/></pattern>')


def _number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _ticks(low, high, logarithmic):
    if logarithmic:
        ticks = [
            step * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for step in ((1, 2, 5) if high / low < 1000 else (1,))
        ]
        return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    step = 10.0 ** math.floor(math.log10(high / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if high / (step * factor) <= 6)
    return [step * i for i in range(int(high / step) + 1)]


class _Frame:
    """Title, unit, horizontal lines and a legend; hands out y coordinates."""

    def __init__(self, title, unit, low, high, names, logarithmic, lines=1):
        """lines: of the labels below the axis."""
        self._low, self._high, self._logarithmic = low, high, logarithmic
        self.parts = [_text(LEFT, 22, title, size=15, more='font-weight="bold"'), _text(LEFT, 40, unit, size=11)]
        for tick in _ticks(low, high, logarithmic):
            y = self.y(tick)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            self.parts.append(_text(LEFT - 6, y + 4, _number(tick), "end", 11))
        self._bottom = TOP + PLOT_HEIGHT + 25 + LINE * lines
        hatched = [_hatching(i) for i in range(len(names)) if _is_hatched(i)]
        if hatched:
            self.parts.append(f"<defs>{''.join(hatched)}</defs>")
        x, row = LEFT, 0
        for i, name in enumerate(names):
            wide = 34 + LETTER * len(name)
            if x > LEFT and x + wide > WIDTH - RIGHT:
                x, row = LEFT, row + 1
            y = self._bottom + 18 * row
            self.parts.append(f'<rect x="{x:.1f}" y="{y - 9}" width="11" height="11" fill="{_fill(i)}"/>')
            self.parts.append(_text(x + 16, y, name))
            x += wide
        self._bottom += 18 * row + 14

    def number(self, labels):
        """Says below the legend what the numbers below the axis stand for."""
        wide = max(LETTER * len(label) for label in labels) + 40
        columns = max(1, min(len(labels), int((WIDTH - LEFT - RIGHT) / wide)))
        rows = math.ceil(len(labels) / columns)
        for i, label in enumerate(labels):
            x, y = LEFT + wide * (i // rows), self._bottom + 12 + LINE * (i % rows)
            self.parts += [_text(x + 18, y, f"{i + 1}:", "end"), _text(x + 24, y, label)]
        self._bottom += 14 + LINE * rows

    def y(self, value):
        if self._logarithmic:
            part = math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
        else:
            part = value / self._high
        return TOP + PLOT_HEIGHT * (1 - part)

    def svg(self):
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._bottom}" width="{WIDTH}" '
            f'height="{self._bottom}" font-family="sans-serif" fill="#222">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
        )


def bars(title, unit, groups, names, values, logarithmic=False):
    """One group of bars for each of `groups`, one bar in it for each of `names`.

    values[group][name] is a height, or None where there is none. What is not above 0 (a difference may be so) has no bar."""
    heights = [value for row in values for value in row if _has_height(value)]
    if not heights:
        return None
    high = max(heights) * (1.3 if logarithmic else 1.1)
    low = 10.0 ** math.floor(math.log10(min(heights) * 0.9)) if logarithmic else 0
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    labels = _labels(groups, room)
    frame = _Frame(title, unit, low, high, names, logarithmic, max(len(lines) for lines in labels))
    wide = min(room * 0.86 / len(names), 60)
    floor = TOP + PLOT_HEIGHT
    for g in range(len(groups)):
        begin = LEFT + room * g + (room - wide * len(names)) / 2
        for n, value in enumerate(values[g]):
            if not _has_height(value):
                continue
            x, y = begin + wide * n, frame.y(value)
            frame.parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - 2:.1f}" height="{floor - y:.1f}" '
                f'fill="{_fill(n)}"/>'
            )
            if wide >= 20:
                frame.parts.append(_text(x + wide / 2 - 1, y - 4, _short(value), "middle", 10))
        frame.parts += [_text(LEFT + room * (g + 0.5), floor + 18 + LINE * i, line, "middle") for i, line in enumerate(labels[g])]
    if labels == _numbers(groups):
        frame.number(groups)
    return frame.svg()


def _numbers(groups):
    return [[str(i + 1)] for i in range(len(groups))]


def _labels(groups, room):
    """The lines of what stands below each group: its name where there is room for all names, else its number."""
    letters = max(int((room - 6) / LETTER), 1)
    wrapped = [textwrap.wrap(group, letters, break_long_words=False, break_on_hyphens=False) or [""] for group in groups]
    fit = all(len(lines) <= LINES_OF_A_LABEL and len(line) <= letters for lines in wrapped for line in lines)
    return wrapped if fit else _numbers(groups)


def _has_height(value):
    return value is not None and value > 0


def _short(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 10_000 else f"{value / 1000:.0f}k"


def lines(title, unit, marks, series, logarithmic=True):
    """One line for each (name, values) of `series`, over equally spaced `marks`."""
    heights = [value for _, values in series for value in values if _has_height(value)]
    if not heights:
        return None
    low = min(heights) * 0.8 if logarithmic else 0
    frame = _Frame(title, unit, low, max(heights) * 1.2, [name for name, _ in series], logarithmic)
    step = (WIDTH - LEFT - RIGHT - 40) / max(len(marks) - 1, 1)
    for i, mark in enumerate(marks):
        frame.parts.append(_text(LEFT + 20 + step * i, TOP + PLOT_HEIGHT + 18, mark, "middle", 11))
    for n, (_, values) in enumerate(series):
        points = [(LEFT + 20 + step * i, frame.y(value)) for i, value in enumerate(values) if _has_height(value)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = _colour(n)
        dashes = ' stroke-dasharray="6 3"' if _is_hatched(n) else ""
        frame.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        frame.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return frame.svg()
