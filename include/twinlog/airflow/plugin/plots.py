"""Draw plots and heat strips as SVG, on the server: no script, nothing from elsewhere.  Pure.

Nothing drawn holds text that came from a cluster, only numbers and words of ours: templates do not escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 150, 4, 22, 20
FLOOR = HEIGHT - BOTTOM
CELL, GAP_PX, CELLS_A_ROW = 9, 1, 50


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time (epoch ms); None: not known, and drawn as a hole."""

    at_ms: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Plot:
    """A titled plot; `summary` says in words what it shows."""

    title: str
    summary: str
    svg: str


def line(points: Sequence[Point], start_ms: int, end_ms: int, top: float, limit: float | None = None) -> str:
    """Draw values over time from 0 to `top`, with a dashed line at `limit`."""
    highest = max(top, limit or 0.0, 1e-9)

    def x(at_ms: int) -> float:
        return LEFT + (WIDTH - 2 * LEFT) * (at_ms - start_ms) / max(1, end_ms - start_ms)

    def y(value: float) -> float:
        return TOP + (FLOOR - TOP) * (1 - value / highest)

    parts = []
    if limit:
        parts.append(
            f'<line class="limit" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{y(limit):.1f}" y2="{y(limit):.1f}"/>'
        )
    for run in _runs(points):
        places = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in run)
        if len(run) == 1:
            parts.append(f'<circle class="dot" cx="{x(run[0][0]):.1f}" cy="{y(run[0][1]):.1f}" r="2.5"/>')
        else:
            parts.append(f'<polyline class="curve" points="{places}"/>')
    return _framed(parts)


def bars(points: Sequence[Point], start_ms: int, end_ms: int, slot_ms: int, top: float) -> str:
    """Draw a bar for each slot of time."""
    scale = (WIDTH - 2 * LEFT) / max(1, end_ms - start_ms)
    parts = []
    for point in points:
        if point.value:
            tall = max(1.0, (FLOOR - TOP) * point.value / max(top, 1e-9))
            wide = max(1.0, slot_ms * scale - 0.5)
            at = min(LEFT + (point.at_ms - start_ms) * scale, WIDTH - LEFT - wide)
            parts.append(
                f'<rect class="bar" x="{at:.1f}" y="{FLOOR - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'
            )
    return _framed(parts)


def _runs(points: Iterable[Point]) -> Iterator[list[tuple[int, float]]]:
    """Cut at values that are not known."""
    run: list[tuple[int, float]] = []
    for point in points:
        if point.value is not None:
            run.append((point.at_ms, point.value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _framed(parts: Iterable[str]) -> str:
    texts = (
        f'<text x="{LEFT}" y="{HEIGHT - 4}">24 h ago</text>'
        f'<text x="{WIDTH - LEFT}" y="{HEIGHT - 4}" text-anchor="end">now</text>'
    )
    axis = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{FLOOR}" y2="{FLOOR}"/>'
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{axis}{body}{texts}</svg>'


def strip(levels: Sequence[int]) -> str:
    """Draw a cell per partition, in order; a level is 0 to 5, and has a class of its own."""
    step = CELL + GAP_PX
    rows = (len(levels) + CELLS_A_ROW - 1) // CELLS_A_ROW
    cells = "".join(
        f'<rect class="h{level}" x="{index % CELLS_A_ROW * step}" y="{index // CELLS_A_ROW * step}"/>'
        for index, level in enumerate(levels)
    )
    size = f'width="{min(len(levels), CELLS_A_ROW) * step}" height="{rows * step}"'
    return f'<svg class="heat" {size} aria-hidden="true">{cells}</svg>'
