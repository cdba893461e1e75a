"""LiRA beside deletion inference on the same ridge and logistic models."""

from pathlib import Path
from typing import Any

FIGURE = "games-lira.png"
_TITLES = {"diabetes-ridge": "ridge regression, diabetes", "cancer-logistic": "logistic regression, breast cancer"}


def draw(kept: dict[str, Any], path: Path) -> None:
    """One panel a model, one mark an adversary; nothing where a game was not played."""
    import matplotlib.pyplot as plt

    found = {title: kept.get(f"membership | {name}") for name, title in _TITLES.items()}
    if not all(found.values()):
        return
    figure, axes = plt.subplots(1, len(found), figsize=(10.5, 3.4), sharey=True, layout="constrained")
    for ax, (title, rows) in zip(axes, found.items(), strict=True):
        for i, row in enumerate(rows):
            p, low, high = row["stated"]
            member = "LiRA" in row["name"] or "Yeom" in row["name"]
            colour, mark = ("#D55E00", "s") if member else ("#0072B2", "o")
            ax.errorbar(p, i, xerr=[[p - low], [high - p]], fmt=mark, color=colour, ms=5, capsize=2)
        ax.axvline(0.5, color="#8C8C8C", ls="--", lw=1)
        ax.set_yticks(range(len(rows)), labels=[row["name"].replace(" (64 shadow models)", "") for row in rows])
        ax.set(xlim=(0.4, 1.01), xlabel="names the deleted record")
        ax.set_title(title, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=130)
    plt.close(figure)
