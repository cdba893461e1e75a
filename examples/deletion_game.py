"""How well can an outsider tell which patient was deleted from a trained model?

In every round a model is trained before and after a deletion. Adversaries see both candidate records and can query both
models. The rounds are played once with a random pair of patients and once with the two most outlying patients. The
program draws deletion_game.png.

    python examples/deletion_game.py --rounds 150
"""

import argparse
from pathlib import Path

import matplotlib

from bayesrecon import games
from bayesrecon.games.adversary import named_adversary

ADVERSARIES = ("exm", "exm-absolute", "ins", "yeom", "white-box")
PAIRS = {"a random pair": None, "the most outlying pair": games.Outlying()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the picture")
    arguments = parser.parse_args()

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 3.2), sharey=True, layout="constrained")
    players = [named_adversary(name) for name in ADVERSARIES]
    for ax, (pair, choose) in zip(axes, PAIRS.items(), strict=True):
        game = games.load("diabetes-ridge", adversaries=players, choose=choose)
        result = games.play(game, n=arguments.rounds, seed=1, workers=1)
        print(f"{pair}, {arguments.rounds} deletions of one of 442 patients; guessing scores 50%")
        for row in result.rows:
            rate, how = row.success, f"from {row.sees}"
            print(f"  {row.adversary:27} {rate.estimate:6.1%} ({rate.lower:.1%} to {rate.upper:.1%}) {how}")
        result.plot(ax=ax)
        ax.set_title(pair, loc="left")
    path = arguments.out / "deletion_game.png"
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
