"""What a picture holds."""

import itertools

from matplotlib.collections import LineCollection, PathCollection
from matplotlib.text import Text


def clouds(ax):
    """The collections of markers that hold anybody."""
    return [c for c in ax.collections if isinstance(c, PathCollection) and len(c.get_offsets())]


def segments(ax):
    """The ends of all vertical and horizontal lines drawn together, (n, 2, 2)."""
    return [
        segment
        for c in ax.collections
        if isinstance(c, LineCollection)
        for segment in c.get_segments()
    ]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def colliding_texts(figure):
    """Pairs of texts that overlap, and texts cut off by the edge of the figure."""
    figure.draw_without_rendering()
    unseen = _unseen(figure)
    texts = [
        t
        for t in figure.findobj(Text)
        if t.get_visible() and t.get_text().strip() and t not in unseen
    ]
    boxes = [t.get_window_extent() for t in texts]
    shrunk = [box.padded(-1.0) for box in boxes]
    pairs = [
        (a.get_text(), b.get_text())
        for (a, box_a), (b, box_b) in itertools.combinations(zip(texts, shrunk, strict=True), 2)
        if box_a.overlaps(box_b)
    ]
    edge = figure.bbox.padded(2.0)
    cut = [
        t.get_text()
        for t, box in zip(texts, boxes, strict=True)
        if not (edge.contains(*box.min) and edge.contains(*box.max))
    ]
    return pairs + cut


def _unseen(figure):
    """Labels of ticks beyond the limits: they exist, but are not drawn."""
    unseen = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in axis.get_major_ticks():
                if not low - slack <= tick.get_loc() <= high + slack:
                    unseen |= {tick.label1, tick.label2}
    return unseen
