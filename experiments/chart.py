"""One chart a kernel: every agent's change against the default, at each stage, a panel for each target. Plain SVG."""

from __future__ import annotations

from html import escape

from rows import Result, Row

WIDTH, LABELS, LINE, TOP = 230, 120, 15, 62
LIMIT = 0.3  # changes beyond are drawn at the edge, with their number
STAGES = {"pre": "#1f77b4", "post": "#d62728", "both": "#2ca02c"}


def chart(kernel: str, results: list[Result]) -> str:
    """The SVG of one kernel."""
    agents = list(dict.fromkeys(row.agent for result in results for row in result.rows if row.stage in STAGES))
    height = TOP + LINE * len(agents) + 28
    width = LABELS + WIDTH * len(results) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
        ' font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(4, 16, f"{kernel}: predicted cycles a wave against the default order", size=13),
        *_legend(),
    ]
    parts += [_text(4, TOP + LINE * place + 11, agent) for place, agent in enumerate(agents)]
    for number, result in enumerate(results):
        parts += _panel(LABELS + WIDTH * number, result, agents)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    found = []
    for place, (stage, colour) in enumerate(STAGES.items()):
        x = 4 + 130 * place
        found.append(f'<circle cx="{x + 4}" cy="28" r="4" fill="{colour}"/>')
        words = {"pre": "before allocation", "post": "after allocation", "both": "both"}[stage]
        found.append(_text(x + 12, 32, words))
    return found


def _panel(left: int, result: Result, agents: list[str]) -> list[str]:
    bottom = TOP + LINE * len(agents)
    parts = [_text(left + WIDTH / 2, TOP - 14, result.target, anchor="middle", size=12)]
    for tick in (-LIMIT, -LIMIT / 2, 0.0, LIMIT / 2, LIMIT):
        x = _x(left, tick)
        colour = "#888" if tick == 0 else "#ddd"
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>')
        parts.append(_text(x, bottom + 14, f"{tick:+.0%}" if tick else "0", anchor="middle"))
    for row in result.rows:
        if row.stage in STAGES:
            parts += _mark(left, result, row, agents.index(row.agent))
    return parts


def _mark(left: int, result: Result, row: Row, place: int) -> list[str]:
    change = result.change(row)
    shown = max(-LIMIT, min(LIMIT, change))
    y = TOP + LINE * place + 7 + {"pre": -3, "post": 0, "both": 3}[row.stage]
    title = f"<title>{escape(row.name)} on {result.target}: {change:+.1%}</title>"
    shape = "#fff" if shown != change else STAGES[row.stage]  # hollow: beyond the edge
    colours = f'fill="{shape}" stroke="{STAGES[row.stage]}"'
    return [f'<circle cx="{_x(left, shown):.1f}" cy="{y}" r="3" {colours}>{title}</circle>']


def _x(left: int, change: float) -> float:
    return left + WIDTH / 2 + change / LIMIT * (WIDTH / 2 - 22)


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
