"""Plots of what a release determines: eigenvalues with their noise, visibility of features, bounds and the witness."""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.plots.recovery_summary import MOST_ROWS, table_height
from bayesrecon.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PANEL,
    ROUNDING,
    axes_of,
    check_path,
    finish,
    fit,
    head,
    label,
    minus,
    name_rows,
    panel,
    save_figure,
    set_ticks,
    sheet,
    styles,
    write,
)
from bayesrecon.results.plan import EXACT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import HashableList

    from bayesrecon.results.diagnosis import Bounds, Diagnosis, Witness
    from bayesrecon.results.plan import Outlook, Plan


_COLOURS = {"determined": BLUE, "partly": ORANGE, "undetermined": GREY}
_SIDE_BY_SIDE = 20  # with more features, the left panel would be taller than the spectrum beside it
_TITLE_PAD = 10


def plot_diagnosis_spectrum(diagnosis: "Diagnosis", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Eigenvalues of the kernel, largest first, with a dash for the noise of each.

    Eigenvalues above the noise, which the draws resolve, have filled markers. Hollow ones need more draws.

    Args:
        diagnosis: result of `bayesrecon.diagnose`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    from matplotlib.ticker import MaxNLocator

    with panel(ax, path) as ax:
        values, noise = (
            np.nan_to_num(np.asarray(v, float), posinf=1e30) for v in (diagnosis.spectrum, diagnosis.noise)
        )
        resolved, index, sampled = values > noise, np.arange(1, values.size + 1), noise > 0
        values, noise = np.clip(values, ROUNDING, 1e30), np.clip(noise, ROUNDING, 1e30)
        inner = np.concatenate([values, noise[sampled], [1.0, 1e-3]])
        last, first = math.floor(math.log10(inner.min() / 3)), math.ceil(math.log10(inner.max() * 2))
        ax.set_yscale("log")
        set_ticks(ax.yaxis, [10.0**e for e in range(math.floor(math.log10(inner.max())), last, (last - first) // 7)])
        ax.set(xlim=(0, max(values.size, 1) + 1), ylim=(10.0**last, 10.0**first))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.8)
        if resolved.any():
            ax.plot(
                index[resolved], values[resolved], "o", ms=5, color=BLUE, zorder=3, label=f"resolved ({resolved.sum()})"
            )
        if not resolved.all():
            text = f"below the noise ({(~resolved).sum()})"
            ax.plot(index[~resolved], values[~resolved], "o", ms=5, mfc="none", mec=BLUE, zorder=3, label=text)
        if sampled.any():
            ax.hlines(noise[sampled], index[sampled] - 0.4, index[sampled] + 0.4, color=ORANGE, lw=1.8, label="noise")
        ax.set_xlabel("index")
        ax.set_ylabel("eigenvalue, relative to the largest")
        ax.set_title(_verdict(diagnosis), loc="left", pad=_TITLE_PAD)
    return ax


def plot_visibility(diagnosis: "Diagnosis", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Share of each feature that the release determines. The lighter part needs more draws.

    The colour is the verdict. Monomials are of the standardised fields. At most 40 features are drawn.

    Args:
        diagnosis: result of `bayesrecon.diagnose`.
        ax: Axes to draw into; by default a new figure. The legend is outside it, so use a constrained layout.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    features = diagnosis.features[:MOST_ROWS]
    labels = [label(f.name) for f in features]
    if len(diagnosis.features) > MOST_ROWS:
        labels.append(f"and {len(diagnosis.features) - MOST_ROWS} more")
    with panel(ax, path, [table_height(len(labels))]) as ax:
        limit, seen = (
            np.clip(np.nan_to_num([getattr(f, name) for f in features]), 0, 1) for name in ("visibility", "seen")
        )
        seen = np.minimum(seen, limit)
        rows, verdicts = np.arange(len(features)), np.array([f.verdict for f in features], object)
        needs_more = limit - seen > 0.002
        for verdict, colour in _COLOURS.items():
            selected = verdicts == verdict
            if selected.any():
                bars = partial(ax.barh, height=0.62, color=colour, zorder=2)
                bars(rows[selected], seen[selected], label=f"{verdict} ({selected.sum()})")
                more = selected & needs_more
                bars(rows[more], (limit - seen)[more], left=seen[more], alpha=0.35)
        if needs_more.any():
            ax.barh(0, 0, color=GREY, alpha=0.35, label="with more draws only")
        beside = ax.get_yaxis_transform()
        for i, value in enumerate(limit):
            write(ax, _percent(value), (1, i), (42, 0), xycoords=beside, ha="right", va="center")
        name_rows(ax, labels, verdicts == "undetermined")
        ax.tick_params(axis="y", length=0)
        set_ticks(ax.xaxis, [0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        ax.set_xlim(0, 1)
        ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel("share of the feature that the release determines")
        ax.set_title("Visibility of features", loc="left", pad=_TITLE_PAD)
    return ax


def plot_diagnosis(diagnosis: "Diagnosis", path: str | Path | None = None, ax: "Axes | None" = None) -> np.ndarray:
    """One figure of the diagnosis: visibility of the features, the spectrum with its noise, and the plan if it has one.

    Args:
        diagnosis: result of `bayesrecon.diagnose`.
        path: save the figure there (.png, .pdf or .svg). The figure is then not registered with pyplot, so it need not
            be closed.
        ax: Axes for the visibility alone; by default a new figure of everything.

    Returns:
        The Axes in an array: visibility, spectrum, plan.

    Raises:
        BayesreconError: the path has another suffix or is in a folder that does not exist.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> visibility, spectrum = plot_diagnosis(bayesrecon.diagnose(release, order=2))
    >>> spectrum.get_xlabel()
    'index'
    """
    if ax is not None:
        return np.array([plot_visibility(diagnosis, ax, path)])
    lines = min(len(diagnosis.features), MOST_ROWS + 1)
    plan = diagnosis.plan
    plan_panel = [] if plan is None else ["plan"]
    tallest = max(table_height(lines), 0.0 if plan is None else plan_height(plan))
    if lines <= _SIDE_BY_SIDE and plan is None:
        mosaic: list[HashableList[str]] = [["visibility", "spectrum"]]
        heights = [max(PANEL, tallest)]
    else:
        mosaic = [["visibility", "spectrum", *plan_panel], ["visibility", ".", *plan_panel]]
        heights = [PANEL, max(tallest - PANEL, 0.3)]
    with sheet(path) as figure:
        axes = figure.subplot_mosaic(mosaic, height_ratios=heights)
        plot_visibility(diagnosis, ax=axes["visibility"])
        plot_diagnosis_spectrum(diagnosis, ax=axes["spectrum"])
        if plan is not None:
            plot_plan(plan, ax=axes["plan"])
        kind = "finite rank" if diagnosis.gap else "decaying spectrum, rank"
        head(figure, f"{label(diagnosis.release)}: {kind} {diagnosis.rank}, index {diagnosis.index:.3g}")
        fit(figure, [PANEL] * len(mosaic[0]), heights)
    return np.array([axes[name] for name in ("visibility", "spectrum", *plan_panel)], dtype=object)


def _verdict(diagnosis: "Diagnosis") -> str:
    count = f"{diagnosis.resolved} of {diagnosis.rank} features"
    if not np.any(diagnosis.noise):
        return f"{count} are determined\nby a trained parameter"
    return f"{count} stand above\nthe noise of {diagnosis.draws:,} draw{'s' * (diagnosis.draws != 1)}"


def _percent(share: float) -> str:
    """A share as a percentage, which is 100 only if the share is exactly one."""
    return minus(f"{min(100 * share, 99.9) if share < 1 - 5e-6 else 100:.3g} %" if share >= 5e-4 else "0 %")


# The precision that each form of a release would leave: fewer draws, fewer digits, or summaries.

_MOST = 7  # largest number of statistics: as many as there are distinct colours and markers
_LINE, _LEAST = 0.3, 3.0  # inches: height of a line, and smallest height of the panel
_WITHIN = 0.64  # share of a line's height that its markers are spread over
_EXACTLY = 1e-9  # relative half widths below this are rounding: the statistic is exact
_BEYOND = 3.0  # factor from the smallest or largest number to the edge where exact or missing ones are drawn


def plot_plan(plan: "Plan", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Half the width of each statistic's interval, relative to its estimate, for each form of the release.

    For draws, and for their mean and covariance, it is the 95 % interval. For a mode with its covariance and for
    variational fits it is the range that rounding leaves. Exact statistics are at the left edge. Statistics that are
    not determined are at the right edge, which does not prove that no attack determines them.

    Args:
        plan: result of `bayesrecon.plan`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    outlooks = plan.outlooks[:_MOST]
    forms = list(_forms(outlooks[0])) if outlooks else []
    with panel(ax, path, heights=(plan_height(plan),)) as ax:
        values = np.array(
            [[_relative(outlook_, value) for _, value in _forms(outlook_)] for outlook_ in outlooks], float
        )
        values[values < _EXACTLY] = 0.0
        finite = values[np.isfinite(values) & (values > 0)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.1, 1.0)
        left, right = low / _BEYOND, high * _BEYOND
        drawn = np.where(np.isnan(values), right, np.maximum(values, left))
        step = _WITHIN / max(len(outlooks) - 1, 3)
        for i, (outlook, style) in enumerate(zip(outlooks, styles(len(outlooks)), strict=True)):
            y = np.arange(len(forms)) + step * (i - (len(outlooks) - 1) / 2)
            ax.plot(drawn[i], y, style.marker, ms=5, color=style.colour, label=label(outlook.name), clip_on=False)
        kinds = [_kind(name) for name, _ in forms]
        for line in (i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]):
            ax.axhline(line - 0.5, color=GREY, linewidth=0.6)
        ax.set_xscale("log")
        ax.set_xlim(left, right)
        ax.set_yticks(np.arange(len(forms)), labels=[name for name, _ in forms])
        ax.set_ylim(len(forms) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0, pad=8)
        ax.grid(axis="x", color=GREY, alpha=0.3, linewidth=0.6)
        if (values == 0).any():
            write(ax, "exact", (0, 1), (0, 4), xycoords="axes fraction", ha="left", color=GREY)
        if np.isnan(values).any():
            write(ax, "not determined", (1, 1), (0, 4), xycoords="axes fraction", ha="right", color=GREY)
        ax.set_xlabel("half width of the interval, relative to the estimate")
        more = f" (first {_MOST} of {len(plan.outlooks)})" if len(plan.outlooks) > _MOST else ""
        ax.set_title(f"What each release would leave{more}", loc="left", pad=20)
    return ax


def plan_height(plan: "Plan") -> float:
    """Height of the panel, in inches."""
    return max(_LEAST, _LINE * sum(1 for o in plan.outlooks[:1] for _ in _forms(o)))


def _forms(outlook: "Outlook") -> Iterator[tuple[str, float | None]]:
    """Names of the forms of the release, and half the width of the interval that each leaves."""
    for draws, se in outlook.se.items():
        yield f"{draws:,} draws", Z95 * se
    most = max(outlook.se, default=0)
    for digits in outlook.shift if most else ():
        yield f"{most:,} draws, {digits} digits", Z95 * outlook.error(most, digits)
    for draws, error in outlook.moments.items():
        yield f"mean, covariance of {draws:,} draws", None if error is None else Z95 * error
    for digits, half in outlook.mode.items():
        yield f"mode, covariance: {'all' if digits == EXACT else digits} digits", half
    for kind, half_widths in ("full-rank", outlook.variational), ("mean-field", outlook.mean_field):
        for digits, half in half_widths.items():
            yield f"{kind} fit: {'all' if digits == EXACT else digits} digits", half
    for worth, error in outlook.sanitised.items():
        yield f"sanitised, worth {worth:,} draws", None if error is None else Z95 * error


def _kind(name: str) -> str:
    """The group of lines that a form of the release belongs to."""
    return next((k for k in ("mean, cov", "mode", "full-rank", "mean-field", "digits", "sanitised") if k in name), "")


def _relative(outlook: "Outlook", value: float | None) -> float:
    return np.nan if value is None else abs(value) / max(abs(outlook.estimate), 1e-300)


def plot_bounds(bounds: "Bounds", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Each interval relative to its midpoint, in per cent, labelled with its ends.

    Statistics without bounds are grey.

    Args:
        bounds: result of `bayesrecon.bound`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> from bayesrecon.results.diagnosis import Bounds, Interval
    >>> bounds = Bounds("survey", 0.99, {"y": (0, 9)}, (Interval("n", 90.0, 110.0), Interval("mean(y)", 4.0, 5.0)))
    >>> [label.get_text() for label in plot_bounds(bounds).get_yticklabels()]
    ['n', 'mean(y)']
    """
    with panel(ax, path) as ax:
        widest = 0.0
        for i, interval in enumerate(bounds.intervals):
            if interval.lower is None or interval.upper is None:
                ax.text(0, i, "not bounded", color=GREY, ha="center", va="center")
                continue
            middle = (interval.lower + interval.upper) / 2
            half = 50 * (interval.upper - interval.lower) / (abs(middle) or 1.0)
            widest = max(widest, half)
            ax.plot([-half, half], [i, i], color=BLUE, linewidth=3, solid_capstyle="butt")
            ends = f"{interval.lower:.5g} … {interval.upper:.5g}"
            ax.annotate(ends, (1.02, i), xycoords=("axes fraction", "data"), va="center")
        ax.set_yticks(range(len(bounds.intervals)), [label(interval.name) for interval in bounds.intervals])
        ax.set_ylim(len(bounds.intervals) - 0.5, -0.5)
        ax.set_xlim(-1.1 * (widest or 1.0), 1.1 * (widest or 1.0))
        ax.set_xlabel("per cent of the interval's midpoint")
        domains = ", ".join(f"{field} in {domain}" for field, domain in bounds.domain.items())
        ax.set_title(label(f"{bounds.level:.0%} bounds, {domains}"), loc="left")
    return ax


_SEEN = 0.5  # share of a value that is determined, from which on it has a band
_MAP = (5.4, 4.4)  # inches, including the colour bar


def plot_witness(witness: "Witness", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """The estimated density of the private records over one or two fields.

    For one field it is a curve, or bars if the field has few values. It has a 95 % band where most of it is determined,
    and is dashed elsewhere. For two fields it is a map. The
    part that the release does not determine is replaced by a smooth density with the recovered moments. The title
    states its share.

    Args:
        witness: result of `bayesrecon.witness`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> ax = plot_witness(bayesrecon.witness(release, "y"))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('y', 'density of the records')
    """
    check_path(path)
    ax, figure = axes_of(ax, pyplot=path is None)
    names = [label(name) for name in witness.fields]
    determined = np.average(witness.visibility, weights=np.maximum(witness.values, 0) + 1e-300)
    if len(names) == 1:
        (grid,) = witness.grids
        half = Z95 * witness.se
        if len(grid) < 12:
            ax.errorbar(grid, witness.values, yerr=half, color=BLUE, marker="o", linestyle="none", capsize=3)
            ax.set_ylabel("share of the records")
        else:
            low, high = witness.values - half, witness.values + half
            seen = np.asarray(witness.visibility) >= _SEEN
            ax.fill_between(grid, low, high, where=seen, color=BLUE, alpha=0.25, linewidth=0)
            ax.plot(grid, witness.values, color=GREY, ls="--", label=None if seen.all() else "smooth guess")
            ax.plot(
                grid, np.where(seen, witness.values, np.nan), color=BLUE, label="determined" if seen.any() else None
            )
            ax.set_ylabel("density of the records")
        ax.set_ylim(bottom=min(0.0, float((witness.values - half).min())))
    else:
        largest = float(witness.values.max())
        mesh = ax.pcolormesh(*witness.grids, witness.values.T, cmap="Blues", vmin=0, vmax=largest, shading="nearest")
        mesh.set_rasterized(True)
        ax.figure.colorbar(mesh, ax=ax, label="density of the records")
        ax.set_ylabel(names[1])
    ax.set_xlabel(names[0])
    ax.set_title(f"Density of the private records\n({determined:.0%} of it determined)", loc="left")
    finish(ax)
    if figure is not None and len(names) == 1:
        fit(figure)
    elif figure is not None:
        figure.set_size_inches(*_MAP)
    if path is not None:
        save_figure(ax.figure.figure, path)
    return ax
