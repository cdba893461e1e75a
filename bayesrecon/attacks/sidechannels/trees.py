"""Trees of R's packages: the number of records in each leaf, their responses, and bounds on their covariates.

The mean response of a node is the average of its daughters' means, weighted by their counts. Forests do not store
counts. They follow from `n_left / n_node = (m_node - m_right) / (m_left - m_right)`, because counts are integers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.posteriors.contents import Entry

_CLOSE = 1e-9  # rounding of means and sums of squares, relative to the responses' spread
_WHOLE = 1e-5  # rounding of counts that are computed from means, in records
_MOST = 100_000  # largest number of records of a tree, and of records in a leaf that are listed one by one
_TRIED = 64  # number of shares with which candidate counts are filtered, and of candidates that are then checked
_MOST_PARTS = 12  # largest number of arrays of a tree
_FEWEST_TREES = 5  # fewer lists of daughters may be something else
_FEWEST_LEAVES = 20  # with fewer leaves, all counts could be multiples of the same number by chance


_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?")  # a class that is one


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree with K nodes, the root first.

    Attributes:
        left, right: `(K,)` daughters; -1 for leaves.
        value: `(K,)` mean of the response.
        count: `(K,)` number of records; NaN if unknown.
        squares: `(K,)` sum of squared deviations; NaN if unknown.
        names: name of each node's splitting variable; "" if it is not known.
        cut: `(K,)` value at which a node splits.
        turned: `(K,)` whether larger values go left.
    """

    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    count: np.ndarray
    squares: np.ndarray
    names: list[str]
    cut: np.ndarray
    turned: np.ndarray

    def bounds(self) -> list[dict[str, tuple[float, float]]]:
        """Bounds on the covariates of each node's records."""
        bounds: list[dict[str, tuple[float, float]]] = [{} for _ in self.left]
        for k in self.downwards():
            if self.left[k] < 0:
                continue
            name, cut = self.names[k], float(self.cut[k])
            for child, above in ((self.left[k], self.turned[k]), (self.right[k], not self.turned[k])):
                low, high = bounds[k].get(name, (-np.inf, np.inf))
                interval = (max(low, cut), high) if above else (low, min(high, cut))
                bounds[child] = {**bounds[k], **({name: interval} if name else {})}
        return bounds

    def downwards(self) -> Iterator[int]:
        """Nodes in an order in which each comes after its parent."""
        waiting = [0]
        while waiting:
            k = waiting.pop()
            yield k
            if self.left[k] >= 0:
                waiting += [int(self.right[k]), int(self.left[k])]

    def responses(self) -> tuple[np.ndarray, np.ndarray]:
        """Responses of single records and their nodes.

        They come from leaves with one record, with two records and a known sum of squares, or with equal responses.
        """
        values: list[float] = []
        nodes: list[int] = []
        spread = np.ptp(self.value) or 1.0
        for k in np.flatnonzero(self.left < 0):
            n, mean, squares = self.count[k], self.value[k], self.squares[k]
            if n == 1:
                leaf_values = [mean]
            elif squares <= _CLOSE * spread**2 and self.count[0] <= _MOST:
                leaf_values = [mean] * int(n)
            elif n == 2 and np.isfinite(squares):
                leaf_values = [mean - np.sqrt(squares / 2), mean + np.sqrt(squares / 2)]
            else:
                continue
            values += leaf_values
            nodes += [int(k)] * len(leaf_values)
        return np.array(values), np.array(nodes, int)


def _is_tree(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether every node except the first one has exactly one parent."""
    inner = left >= 0
    children = np.concatenate([left[inner], right[inner]])
    parents = np.concatenate([np.flatnonzero(inner)] * 2)
    return (
        len(left) > 0
        and np.array_equal(inner, right >= 0)
        and np.array_equal(np.sort(children), np.arange(1, len(left)))
        and bool(np.all(children > parents))
    )


def of_rpart(parts: Mapping[str, Entry], entries: Mapping[str, Entry], root: str) -> Tree | None:
    """A tree of rpart whose nodes contain means of a response; None for other trees and for modified ones.

    Args:
        parts: parts of its frame, by name.
        entries: all entries of the file, by place.
        root: place of the object.
    """
    if (frame := _frame(parts, entries, root, "n", "yval", "dev")) is None:
        return None
    left, right, names, columns = frame
    count, value, squares = map(np.ravel, columns)
    if (
        {len(count), len(value), len(squares)} != {len(left)}
        or not np.isfinite([count, value, squares]).all()
        or np.any(count < 1)
    ):
        return None
    tree = Tree(left, right, value, count, squares, *_splits(parts, entries, root, names, left))
    return tree if _is_tree(left, right) and _adds_up(tree) else None


def of_classes(
    parts: Mapping[str, Entry], entries: Mapping[str, Entry], root: str
) -> tuple[Tree, dict[str, float]] | None:
    """A tree of rpart whose nodes count classes, and the counts of its root; None if the counts do not add up.

    For each node, `yval2` contains the class, the counts of all classes, their shares, and the node's share.
    """
    if (frame := _frame(parts, entries, root, "n", "yval2")) is None:
        return None
    left, right, names, (count, node_values) = frame
    count = np.ravel(count)
    classes = (node_values.shape[1] - 2) // 2 if node_values.ndim == 2 else 0
    if classes < 2 or not np.isfinite(node_values).all():
        return None
    counts, code, inner = node_values[:, 1 : 1 + classes], node_values[:, 0], left >= 0
    consistent = _is_tree(left, right) and np.array_equal(counts.sum(axis=1), count) and bool(np.all(counts >= 0))
    if not consistent or not np.array_equal(counts[inner], counts[left[inner]] + counts[right[inner]]):
        return None  # with weights, counts are not integers
    labels = entries.get(f"{root.rstrip('/')}@ylevels")
    levels = [str(v) for v in np.ravel(labels.values)] if labels is not None else []
    levels = levels if len(levels) == classes else [str(k + 1) for k in range(classes)]
    numbers = np.array([float(v) if _NUMBER.fullmatch(v) else k + 1.0 for k, v in enumerate(levels)])
    value = numbers[np.clip(code.astype(int) - 1, 0, classes - 1)]
    pure = np.where(counts.max(axis=1) == count, 0.0, np.nan)
    tree = Tree(left, right, value, count, pure, *_splits(parts, entries, root, names, left))
    return tree, dict(zip(levels, counts[0].tolist(), strict=True))


def _frame(
    parts: Mapping[str, Entry], entries: Mapping[str, Entry], root: str, *columns: str
) -> tuple[np.ndarray, np.ndarray, list[str], list[np.ndarray]] | None:
    """Daughters of the nodes of rpart, their splitting variables, and columns of numbers; None if one is missing.

    A node's daughters have twice its number, or one more. They are -1 where there are none.
    """
    rows = entries.get(f"{root}frame@row.names")
    if rows is None or not {"var", *columns} <= set(parts):
        return None
    try:
        numbers = np.ravel(np.asarray(rows.values)).astype(float)
        values = [np.asarray(parts[name].values, float) for name in columns]
    except (TypeError, ValueError, OverflowError):
        return None
    names = [str(v) for v in np.ravel(parts["var"].values)]
    if {len(numbers), *map(len, map(np.atleast_1d, values))} != {len(names)}:
        return None
    at = {n: k for k, n in enumerate(numbers.tolist())}
    left, right = (np.array([at.get(2 * n + s, -1) for n in numbers.tolist()], int) for s in (0, 1))
    return left, right, names, values


def _adds_up(tree: Tree) -> bool:
    """Whether counts, means and sums of squares of the nodes follow from those of their daughters.

    For classes, rates and weighted records they do not.
    """
    inner = tree.left >= 0
    a, b = tree.left[inner], tree.right[inner]
    n, spread = tree.count, np.ptp(tree.value) or 1.0
    means = (n[a] * tree.value[a] + n[b] * tree.value[b]) / (n[a] + n[b])
    between = n[a] * n[b] / (n[a] + n[b]) * (tree.value[a] - tree.value[b]) ** 2
    squares = tree.squares[a] + tree.squares[b] + between
    counts_add_up = np.array_equal(n[inner], n[a] + n[b])
    return bool(
        counts_add_up
        and np.all(np.abs(means - tree.value[inner]) <= _CLOSE * spread)
        and np.all(np.abs(squares - tree.squares[inner]) <= _CLOSE * (spread**2 + tree.squares[inner]))
    )


def _splits(
    parts: Mapping[str, Entry], entries: Mapping[str, Entry], root: str, names: list[str], left: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The variable and the value at which each node splits, from its first row in the table of splits."""
    cut, turned = np.zeros(len(names)), np.zeros(len(names), bool)
    split_names = [""] * len(names)
    table, labels = entries.get(f"{root}splits"), entries.get(f"{root}splits@dimnames/[[1]]")
    if table is None or labels is None or not {"ncompete", "nsurrogate"} <= set(parts):
        return split_names, cut, turned
    splits, variables = np.asarray(table.values), [str(v) for v in np.ravel(labels.values)]
    skipped_rows = [np.ravel(parts[k].values) for k in ("ncompete", "nsurrogate")]
    valid = all(m.dtype.kind in "iu" and len(m) == len(names) and np.all(m >= 0) for m in skipped_rows)
    numbers = splits.dtype.kind in "iuf" and splits.ndim == 2 and splits.shape[1] >= 4
    if not valid or not numbers or len(variables) != len(splits):
        return split_names, cut, turned
    row = 0
    for k in np.flatnonzero(left >= 0):
        if row < len(splits) and variables[row] == names[k] and abs(splits[row, 1]) == 1:
            split_names[k], cut[k], turned[k] = names[k], splits[row, 3], splits[row, 1] > 0
        row += 1 + int(skipped_rows[0][k]) + int(skipped_rows[1][k])
    return split_names, cut, turned


def of_forest(saved: Mapping[str, Entry], names: list[str]) -> list[Tree]:
    """Trees of a regression forest of randomForest, with their counts; none if the parts do not fit together.

    Args:
        saved: parts of the forest, by name.
        names: names of the covariates.
    """
    parts = ("leftDaughter", "rightDaughter", "nodepred", "bestvar", "xbestsplit", "ndbigtree")
    if not set(parts) <= set(saved):
        return []
    try:
        left, right, value, best, cut = (np.asarray(saved[k].values, float) for k in parts[:5])
        sizes = np.ravel(saved["ndbigtree"].values).astype(int)
    except (TypeError, ValueError, OverflowError):
        return []
    left, right, value, best, cut = (a[:, None] if a.ndim == 1 else a for a in (left, right, value, best, cut))
    same = {a.shape for a in (left, right, value, best, cut)}
    if len(same) > 1 or left.ndim != 2 or left.shape[1] != len(sizes) or np.any((sizes < 1) | (sizes > len(left))):
        return []
    trees = []
    for t, size in enumerate(sizes):
        at = slice(0, int(size))
        down, up = (np.where(a[at, t] >= 1, a[at, t] - 1, -1).astype(int) for a in (left, right))
        if not _is_tree(down, up) or not np.isfinite(value[at, t]).all():
            return []
        variables = [int(b) if 1 <= b <= len(names) else 0 for b in best[at, t]]
        unknown = np.full(int(size), np.nan)
        split_names = [names[b - 1] if b and d >= 0 else "" for b, d in zip(variables, down, strict=True)]
        trees.append(Tree(down, up, value[at, t], unknown, unknown, split_names, cut[at, t], np.zeros(int(size), bool)))
    return _counted(trees)


def _counted(trees: list[Tree]) -> list[Tree]:
    """The trees with counts, from the smallest number of records at the roots for which all counts are integers."""
    shares = [_shares(tree) for tree in trees]
    all_shares = np.concatenate([s[np.isfinite(s)] for s in shares])
    if sum(int((t.left < 0).sum()) for t in trees) < _FEWEST_LEAVES:
        return []
    candidates = np.arange(1, _MOST + 1)
    for share in all_shares[
        evenly(len(all_shares), _TRIED)
    ]:  # a few shares leave few candidates to check with all shares
        count = candidates * share
        candidates = candidates[(np.abs(count - np.round(count)) <= _WHOLE) & (count > 0.5)]
    for n in candidates[:_TRIED]:
        if np.all(np.abs(n * all_shares - np.round(n * all_shares)) <= _WHOLE) and np.all(n * all_shares > 0.5):
            return [
                Tree(t.left, t.right, t.value, np.round(n * s), t.squares, t.names, t.cut, t.turned)
                for t, s in zip(trees, shares, strict=True)
            ]
    return []


def _shares(tree: Tree) -> np.ndarray:
    """The share of the root's records in each node, `(K,)`; NaN below nodes whose daughters have equal means."""
    shares = np.full(len(tree.left), np.nan)
    shares[0] = 1.0
    for k in tree.downwards():
        a, b = int(tree.left[k]), int(tree.right[k])
        if a < 0 or tree.value[a] == tree.value[b]:
            continue
        left_share = (tree.value[k] - tree.value[b]) / (tree.value[a] - tree.value[b])
        shares[a], shares[b] = shares[k] * left_share, shares[k] * (1 - left_share)
    return shares


def lists_of_trees(entries: Iterable[Entry]) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Lists of trees by the place of their container: which nodes are leaves, and a value of each node.

    A tree is two arrays of daughters, counted from zero or one, and an array of numbers that are no positions.
    """
    by_tree: dict[str, dict[str, list[np.ndarray]]] = {}
    for entry in entries:
        if entry.kind != "array" or not entry.leaves:
            continue
        owner = entry.where.partition("*")[0].rstrip("/").rpartition("/")[0] + "/"
        key = next(
            (k for k, names in enumerate(zip(*(e.path for e in entry.leaves), strict=False)) if len(set(names)) > 1), 0
        )
        for leaf in entry.leaves:
            by_tree.setdefault(owner, {}).setdefault(leaf.path[key], []).append(np.ravel(leaf.values))
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for owner, trees in by_tree.items():
        read = [tree for arrays in trees.values() if (tree := _of_arrays(arrays)) is not None]
        if len(read) == len(trees) >= _FEWEST_TREES:
            found[owner] = read
    return found


def _of_arrays(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    for k, left in enumerate(arrays if len(arrays) <= _MOST_PARTS else ()):
        for right in arrays[k + 1 :]:
            if left.dtype.kind not in "iuf" or right.dtype.kind not in "iuf" or len(left) != len(right):
                continue
            down, up = (np.where(v > 0, v, -1).astype(float) for v in (left, right))
            others = [v for v in arrays if v is not left and v is not right and len(v) == len(left) > 1]
            numbers = [v for v in others if v.dtype.kind == "f" and len(np.unique(v)) > len(v) / 2]
            if numbers and _is_tree(down, up):
                return down < 0, numbers[0]
    return None


def single_leaves(entries: Iterable[Entry]) -> tuple[int, np.ndarray]:
    """The number of leaves with one record, and their values if they are single numbers."""
    by_place = {p.where: np.asarray(p.values) for p in entries if p.kind == "array"}
    count, leaf_values = 0, []
    for single, values in _nodes(by_place):
        count += int(single.sum())
        if values is not None and values.size == single.size:
            leaf_values.append(values.ravel()[single])
    return count, np.concatenate(leaf_values) if leaf_values else np.zeros(0)


def _nodes(by_place: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    for where, samples in by_place.items():
        nodes = where.rpartition("/")[0]
        if where.endswith("/n_node_samples"):
            left, values = by_place.get(f"{nodes}/left_child"), by_place.get(f"{nodes.rpartition('.')[0]}.values")
            if left is not None and left.shape == samples.shape:
                yield (left < 0) & (samples == 1), values
        elif where.endswith("/count") and f"{nodes}/is_leaf" in by_place:
            leaf = by_place[f"{nodes}/is_leaf"]
            if leaf.shape == samples.shape:
                yield (leaf > 0) & (samples == 1), None
