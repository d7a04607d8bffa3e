"""A line's worth of figure: where the points of one kernel lie between nothing and what they could attain."""

from __future__ import annotations

from roofexp.report.rows import Row

WIDTH, HEIGHT, END = 160, 14, 1.1  # in pixels; END is the fraction at the right edge


def strip(rows: list[Row]) -> str:
    """An SVG with a tick for every placed point, a path for each colour; points beyond END stand at the edge."""
    paths: dict[str, list[str]] = {}
    for row in rows:
        if row.fraction is not None:
            x = WIDTH * min(max(row.fraction, 0.0), END) / END
            paths.setdefault(row.kind, []).append(f"M{x:.1f} 2v{HEIGHT - 4}")
    ticks = "".join(f'<path class="tick {kind}" d="{"".join(moves)}"/>' for kind, moves in paths.items())
    one = WIDTH / END
    frame = f'<path class="rule" d="M0 {HEIGHT - 0.5}H{WIDTH}M{one:.1f} 0V{HEIGHT}"/>'
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg class="strip" {size} aria-hidden="true">{frame}{ticks}</svg>'
