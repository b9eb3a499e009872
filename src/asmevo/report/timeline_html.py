"""The timeline as one HTML file that opens from disk: charts by Bokeh, whose script is inside the file.

Four charts: issue slots of all waves with the stalls before them coloured by reason; the instructions of the
costliest stretch, each on a line of its own beside its text, with arcs from memory instructions to the waits that
cover them and the first uses; how long each unit is held; and registers live along the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, LayoutDOM, Range1d
from bokeh.models.widgets import Div
from bokeh.palettes import Category20
from bokeh.plotting import figure
from bokeh.resources import INLINE

from asmevo.analysis.occupancy import Occupancy
from asmevo.analysis.pressure import pressure_profile
from asmevo.program.kernel import Kernel
from asmevo.timing.timeline import CoverLink, IssueSlot, Timeline

ISSUE_COLOUR = "#3b3b3b"
STALL_COLOURS = tuple(Category20[20][::2]) + tuple(Category20[20][1::2])
OTHER_COLOUR = "#d9d9d9"
LINK_COLOUR = "#0b62a4"

_WIDTH = 1400  # pixels
_ROW = 15
_LEGEND_ROW = 24
_MOST_ROWS = 600
_BARS = ("cycle", "row", "width", "text", "reason", "source", "wave", "stall")


def timeline_html(kernel: Kernel, found: Timeline, limits: Occupancy) -> str:
    """The whole page as text."""
    parts: list[LayoutDOM] = [Div(text=_heading(kernel, found, limits), width=_WIDTH)]
    reasons = _reasons(found)
    parts += [_waves(kernel, found, reasons), _instructions(kernel, found, reasons)]
    parts += [_units(found), _pressure(kernel)]
    page: str = file_html(column(*parts), INLINE, f"{kernel.name} on {kernel.target.name}")
    return page


def _heading(kernel: Kernel, found: Timeline, limits: Occupancy) -> str:
    estimate = found.estimate
    steps = "".join(f"<li>{escape(each.step)}</li>" for each in limits.limiters if each.step)
    known = ", ".join(f"{share:.0%} {name}" for name, share in estimate.known.items())
    return (
        f"<h2>{escape(kernel.name)} on {escape(kernel.target.name)}</h2>"
        f"<p>{estimate.cycles:.0f} cycles with {estimate.waves} waves a SIMD, memory: {escape(estimate.memory)}. "
        f"{escape(estimate.critical)} {escape(estimate.next_limit)}</p>"
        f"<p>Occupancy {limits.waves} of {limits.max_waves} waves, limited by {escape(limits.limited_by)}.</p>"
        f"<ul>{steps}</ul><p>Known: {escape(known)}; {escape(estimate.silicon)}. {escape(estimate.note.capitalize())}; "
        f"{escape('; '.join(estimate.assumptions))}.</p>"
    )


def _reasons(found: Timeline) -> dict[str, str]:
    """A colour for each reason to stall, those that cost most first; one colour for all that cost least."""
    cost: dict[str, int] = {}
    for slot in found.slots:
        if slot.stall:
            cost[slot.reason] = cost.get(slot.reason, 0) + slot.stall
    ranked = sorted(cost, key=lambda reason: -cost[reason])
    colours = [*STALL_COLOURS, *[OTHER_COLOUR] * len(ranked)]
    return dict(zip(ranked, colours, strict=False))


def _bars(kernel: Kernel, slots: Sequence[IssueSlot], rows: Sequence[float], stalls: bool) -> ColumnDataSource:
    columns: dict[str, list[object]] = {name: [] for name in _BARS}
    for slot, row in zip(slots, rows, strict=True):
        width = slot.stall if stalls else slot.held
        if not width:
            continue
        source = "" if slot.source is None else kernel.by_id[slot.source].text
        left = slot.cycle - slot.stall if stalls else slot.cycle
        values = (left + width / 2, row, width, kernel.by_id[slot.instruction].text, slot.reason, source)
        for name, value in zip(_BARS, (*values, slot.wave, slot.stall), strict=True):
            columns[name].append(value)
    return ColumnDataSource(columns)


def _draw(
    plot: figure, kernel: Kernel, slots: Sequence[IssueSlot], rows: Sequence[float], reasons: dict[str, str]
) -> None:
    plot.rect("cycle", "row", "width", 0.7, source=_bars(kernel, slots, rows, False), color=ISSUE_COLOUR)
    for reason, colour in reasons.items():
        chosen = [(slot, row) for slot, row in zip(slots, rows, strict=True) if slot.stall and slot.reason == reason]
        if chosen:
            source = _bars(kernel, [slot for slot, _ in chosen], [row for _, row in chosen], True)
            label = "others" if colour == OTHER_COLOUR else reason
            plot.rect("cycle", "row", "width", 0.7, source=source, color=colour, legend_label=label)
    plot.add_tools(
        HoverTool(
            tooltips=[
                ("", "@text"),
                ("wave", "@wave"),
                ("stall", "@stall cycles: @reason"),
                ("waits for", "@source"),
            ]
        )
    )


def _waves(kernel: Kernel, found: Timeline, reasons: dict[str, str]) -> figure:
    count = found.estimate.waves
    plot = figure(
        title="Issue slots of all waves, and what each waits for before them; loops until they are steady",
        width=_WIDTH,
        height=max(160 + 24 * count, 60 + _LEGEND_ROW * len(set(reasons.values()))),
        x_axis_label="cycle",
        y_axis_label="wave",
        y_range=Range1d(start=count - 0.5, end=-0.5),
        tools="xpan,xwheel_zoom,reset",
        active_scroll="xwheel_zoom",
    )
    plot.yaxis.ticker = list(range(count))
    _draw(plot, kernel, found.slots, [float(slot.wave) for slot in found.slots], reasons)
    if plot.legend:
        plot.add_layout(plot.legend[0], "right")
    return plot


def _instructions(kernel: Kernel, found: Timeline, reasons: dict[str, str]) -> figure:
    slots = _costliest(kernel, found)
    texts = [f"{place} {kernel.by_id[slot.instruction].text}" for place, slot in enumerate(slots)]
    plot = figure(
        title="Instructions of the costliest stretch (wave 0, its last iteration); arcs: memory, wait, first use",
        width=_WIDTH,
        height=120 + _ROW * max(1, len(texts)),
        x_axis_label="cycle",
        y_range=Range1d(start=max(len(texts), 1) - 0.5, end=-0.5),
        tools="xpan,xwheel_zoom,reset",
        active_scroll="xwheel_zoom",
    )
    plot.yaxis.ticker = list(range(len(texts)))
    plot.yaxis.major_label_overrides = dict(enumerate(texts))
    _draw(plot, kernel, slots, [float(place) for place in range(len(slots))], reasons)
    _draw_links(plot, slots, found.links)
    if plot.legend:
        plot.legend.visible = False
    return plot


def _draw_links(plot: figure, slots: Sequence[IssueSlot], links: Sequence[CoverLink]) -> None:
    place = {slot.instruction: (float(slot.cycle), float(row)) for row, slot in enumerate(slots)}
    pairs = [(each.load, each.wait) for each in links] + [(each.wait, each.use) for each in links]
    ends = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    plot.segment(
        [a[0] for a, _ in ends],
        [a[1] for a, _ in ends],
        [b[0] for _, b in ends],
        [b[1] for _, b in ends],
        color=LINK_COLOUR,
        line_width=1.5,
        line_alpha=0.6,
    )


def _costliest(kernel: Kernel, found: Timeline) -> list[IssueSlot]:
    """Wave 0's last iteration of the loop with the most cycles; without loops all of wave 0."""
    first = [slot for slot in found.slots if slot.wave == 0]
    loops = found.estimate.loops
    if loops:
        loop = max(loops, key=lambda each: each.cycles * each.trips)
        inside = {i.id for block in loop.blocks for i in kernel.blocks[block].instructions}
        first = [slot for slot in first if slot.instruction in inside]
        last = max((slot.iteration for slot in first), default=0)
        first = [slot for slot in first if slot.iteration == last]
    return first[:_MOST_ROWS]


def _units(found: Timeline) -> figure:
    names = list(found.estimate.utilisation)
    shares = [100 * found.estimate.utilisation[name] for name in names]
    plot = figure(
        title="How long each unit is held (% of the cycles)",
        width=_WIDTH,
        height=220,
        x_range=FactorRange(factors=names),
        y_range=Range1d(start=0, end=100),
        tools="",
    )
    plot.vbar(names, 0.7, shares, color=ISSUE_COLOUR)
    return plot


def _pressure(kernel: Kernel) -> figure:
    points = pressure_profile(kernel).points
    places = list(range(len(points)))
    plot = figure(
        title="Registers live along the kernel",
        width=_WIDTH,
        height=280,
        x_axis_label="instruction, in the order of the code",
        y_axis_label="registers",
        tools="xpan,xwheel_zoom,reset",
    )
    for name, colour, values in (
        ("VGPR", STALL_COLOURS[0], [point.vgprs for point in points]),
        ("AGPR", STALL_COLOURS[1], [point.agprs for point in points]),
        ("SGPR", STALL_COLOURS[2], [point.sgprs for point in points]),
    ):
        if any(values):
            plot.step(places, values, color=colour, legend_label=name, mode="after", line_width=2)
    return plot
