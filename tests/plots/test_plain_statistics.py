"""Six lines that read at the width of a phone."""

import numpy as np

from bayesrecon.plots.plain_statistics import PlainStatistic, plot_plain_statistics

LINES = [
    PlainStatistic("number of patients", 445.0, 433.0, 458.0, 442.0, ".0f"),
    PlainStatistic("mean progression after a year", 152.0, 150.0, 153.0, 152.3, ".0f"),
    PlainStatistic("not determined", np.nan, np.nan, np.nan, 3.0, ".1f"),
    PlainStatistic("exact", 3.0, 3.0, 3.0, 3.0, ".1f"),
    PlainStatistic("far off", 3.0, 2.9, 3.1, 300.0, ".1f"),
]


def test_texts_are_large_and_apart(tmp_path, monkeypatch):
    """At 390 pixels no text is smaller than 11 pixels, none leaves the picture, and words do not meet numbers."""
    import bayesrecon.plots.plain_statistics as plain_statistics

    kept = []
    monkeypatch.setattr(plain_statistics, "save_figure", lambda figure, path: kept.append(figure))
    plot_plain_statistics(LINES, "442 patients, from 8000 draws alone", tmp_path / "patients.png")
    (figure,) = kept
    figure.draw_without_rendering()
    scale = 390 / figure.bbox.width
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    assert min(text.get_size() * figure.dpi / 72 * scale for text in texts) > 11
    assert all(box.x0 > 0 and box.x1 < figure.bbox.width and box.y0 > 0 for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
