"""Draws the plots, as PNG files in the folder of the results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from benchmarks.alternatives import ALTERNATIVES
from benchmarks.batches import WHOLE
from benchmarks.report import FOLDER, PLOTS
from benchmarks.resources import ROLES
from benchmarks.results import Results, Row
from benchmarks.speed import LAYER

_OURS, _OTHERS, _DARK, _PALE = "#2a6f97", "#b8b8b8", "#333333", "#dddddd"
_FOOT = 0.25  # inches
_LINES = ("#2a6f97", "#e07a3f", "#6a994e", "#8e5ea2", "#444444")
_NAMES = {"exact_match": "exact match", "regex": "regex", "json_shape": "JSON shape", "difflib_ratio": "difflib",
          "regex_reason": "regex, with reasons", "regex_print": "regex, with prints"}  # fmt: skip


def draw(results: Results) -> None:
    """Draws all plots for which there are results."""
    style: dict[Any, object] = {  # matplotlib's types allow only a list of names
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 12,
        "axes.titleweight": "bold",
        "axes.edgecolor": "#888888",
        "savefig.dpi": 160,
    }
    plots: tuple[Callable[[Results, Path], None], ...] = (_speed, _alternatives, _latency, _resources)
    with mpl.rc_context(style):
        for name, plot in zip(PLOTS, plots, strict=True):
            plot(results, FOLDER / f"{name}.png")


def _figure(height: float) -> Figure:
    """An empty figure of this height in inches, with room for a line at its foot."""
    figure = Figure(
        figsize=(9, height), layout=ConstrainedLayoutEngine(rect=(0, _FOOT / height, 1, 1 - _FOOT / height))
    )
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, results: Results, path: Path) -> None:
    machine = results.machine
    told = f"{machine['processor']} · Python {machine['python']} · Linux {machine['kernel']} · {machine['date']}"
    figure.text(0.995, 0.03 / figure.get_figheight() * 2, told, ha="right", fontsize=7, color="#888888")
    figure.savefig(path)


def _speed(results: Results, path: Path) -> None:
    """Draws the speed relative to bare Python."""
    rows = list(results.of(LAYER, WHOLE))[::-1]
    figure = _figure(0.5 * len(rows) + 1.7)
    axes = figure.subplots()
    axes.set_title("Speed against bare Python, which isolates nothing", pad=18)
    for place, row in enumerate(rows):
        _ratio_bar(axes, place, row)
    axes.axvline(1, color=_DARK, linewidth=1)
    axes.text(1, len(rows) - 0.35, "bare = 1", ha="center", va="bottom", fontsize=9, color=_DARK)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, max([1.3, *((row.high or row.value) + 0.15 for row in rows)]))
    axes.set_xlabel("times as fast as bare Python in the same run (black: quartiles; red: target)")
    _save(figure, results, path)


def _ratio_bar(axes: Axes, place: int, row: Row) -> None:
    axes.barh(place, row.value, height=0.55, color=_OURS if row.group == LAYER else "#61a5c2")
    if row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [place, place], color=_DARK, linewidth=1.5)
    if row.target is not None:
        axes.plot([row.target] * 2, [place - 0.38, place + 0.38], color="#d62828", linewidth=1.5)
    axes.text(0.02, place, f"{row.value:.2f}", va="center", color="white", fontweight="bold")


def _label(row: Row) -> str:
    return f"sandbox layer: {_NAMES.get(row.name, row.name)}" if row.group == LAYER else f"service: {row.name}"


def _alternatives(results: Results, path: Path) -> None:
    """Draws the time per completion of each alternative, on a logarithmic scale."""
    rows = sorted(results.of(ALTERNATIVES), key=lambda row: -row.value)
    if not rows:
        return
    figure = _figure(0.5 * len(rows) + 1.5)
    axes = figure.subplots()
    axes.set_title("Time a completion, regex grader, one core (containers: any)")
    colours = [_OURS if row.name.startswith("gradebox") else _OTHERS for row in rows]
    axes.barh(range(len(rows)), [row.value for row in rows], height=0.6, color=colours)
    axes.set_xscale("log")
    bare = min(row.value for row in rows if row.name.startswith("bare"))
    for place, row in enumerate(rows):
        times = row.value / bare
        told = "" if times == 1 else f"   {times:,.0f} × bare" if times >= 10 else f"   {times:.2f} × bare"
        axes.text(row.value * 1.15, place, f"{_time(row.value)}{told}", va="center", fontsize=9)
    axes.set_xlim(1, max(row.value for row in rows) * 80)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda micros, _: _time(micros)))
    axes.set_xlabel("a completion, logarithmic; those for each are extrapolated from a few")
    _save(figure, results, path)


def _time(micros: float) -> str:
    if micros < 1000:
        return f"{micros:.3g} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1e6 else f"{micros / 1e6:.3g} s"


def _latency(results: Results, path: Path) -> None:
    """Draws the share of requests that were answered within each time."""
    curves = results.series.get("latency")
    if not isinstance(curves, dict):
        return
    figure = _figure(4.4)
    axes = figure.subplots()
    axes.set_title("Requests answered within, over HTTP, one core in all")
    for colour, (name, spent) in zip(_LINES, curves.items(), strict=False):
        shares = [(number + 1) / len(spent) * 100 for number in range(len(spent))]
        label = f"{name}\np50 {spent[len(spent) // 2]:.1f} ms"
        axes.step(spent, shares, where="post", color=colour, linewidth=1.8, label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda millis, _: f"{millis:g} ms"))
    axes.set_ylabel("% of requests")
    axes.set_ylim(0, 100)
    axes.grid(color=_PALE, linewidth=0.6)
    figure.legend(loc="outside right center", frameon=False, labelspacing=1.2)
    _save(figure, results, path)


def _resources(results: Results, path: Path) -> None:
    """Draws the memory of each role, and the CPU time per completion, by the size of a batch."""
    curves = results.series.get("resources")
    if not isinstance(curves, list):
        return
    figure = _figure(4.2)
    left, right = figure.subplots(1, 2)
    sizes = [curve["completions"] for curve in curves]
    left.set_title("Peak memory by size of batch")
    for colour, role in zip(_LINES, ROLES, strict=False):
        left.plot(sizes, [curve[role] for curve in curves], marker="o", color=colour, label=role)
    left.set_ylabel("MiB")
    left.legend(loc="upper left", ncols=3, frameon=False)
    left.set_ylim(0, max(curve[role] for curve in curves for role in ROLES) * 1.3)
    right.set_title("CPU of the service, a completion")
    right.plot(sizes, [curve["cpu_us"] for curve in curves], marker="o", color=_OURS)
    right.set_ylabel("µs")
    right.set_ylim(0, max(curve["cpu_us"] for curve in curves) * 1.3)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda count, _: f"{count:,.0f}"))
        axes.set_xlabel("completions")
        axes.grid(color=_PALE, linewidth=0.6)
    _save(figure, results, path)
