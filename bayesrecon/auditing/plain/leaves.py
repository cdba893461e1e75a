"""Responses of single records in the leaves of trees, with bounds on their covariates."""

from collections.abc import Iterable

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.short_text import preview
from bayesrecon.auditing.trees import Tree, lists_of_trees, of_classes, of_forest, of_rpart
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import LEAF
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

_SHOWN = 3  # records whose bounds are listed
_OFTEN, _FEWEST = 0.1, 8  # share of the trees in which a response recurs; fewest records with values beside the trees
_FRAME, _FOREST = "frame/", "forest/"
_AVERAGED = {"", "anova", "class"}
"""Methods of rpart whose leaves with one record contain its response. Rates are shrunk towards other records."""


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each tree or forest that reveals responses."""
    entries = {
        e.where: e
        for e in look.contents.entries
        if e.where not in look.reported and e.kind in ("array", "labels", "text")
    }
    findings = []
    for parent, arrays in _siblings(entries.values()).items():
        if parent.endswith(_FRAME):
            root = parent.removesuffix(_FRAME)
            tree = of_rpart(arrays, entries, root)
            classes = of_classes(arrays, entries, root) if tree is None else None
            method = entries[f"{root}method"].values if f"{root}method" in entries else ""
            if tree is not None:
                finding = _tree(look, arrays, tree, _moments(tree))
            elif classes is not None:
                counts = classes[1].items()
                class_counts = tuple(Item(f"n[response={name}]", float(count), 0.0) for name, count in counts)
                finding = _tree(look, arrays, classes[0], class_counts)
            else:
                finding = _alone(look, arrays, str(method))
            findings += [finding] if finding is not None else []
        elif parent.endswith(_FOREST):
            names = entries.get(f"{parent}ncat@names")
            trees = of_forest(arrays, [] if names is None else [str(v) for v in np.ravel(names.values)])
            findings += [f for f in [_forest(look, arrays, trees)] if f is not None]
    lists = lists_of_trees(e for e in look.contents.entries if e.where not in look.reported)
    return findings + [f for parent, trees in lists.items() if (f := _lists(look, parent, trees)) is not None], []


def _siblings(entries: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """Arrays of leaves and splits by name, for each object."""
    by_parent: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        cut = max(entry.where.rfind("/"), entry.where.rfind("@")) + 1
        if entry.kind == "array":
            by_parent.setdefault(entry.where[:cut], {})[entry.where[cut:]] = entry
    return {where: arrays for where, arrays in by_parent.items() if any(e.role == LEAF for e in arrays.values())}


def _moments(tree: Tree) -> tuple[Item, ...]:
    """Mean and standard deviation of all responses, from the root."""
    rows = float(tree.count[0])
    return (
        Item("n", rows, 0.0),
        Item("mean(response)", float(tree.value[0]), 0.0),
        Item("var(response)", float(tree.squares[0] / rows), 0.0),
    )


def _tree(look: Look, arrays: dict[str, Entry], tree: Tree, root_items: tuple[Item, ...]) -> Finding | None:
    values, nodes = tree.responses()
    alone = int(((tree.left < 0) & (tree.count == 1)).sum())
    rows = float(tree.count[0])
    where = tuple(arrays[name].where for name in ("n", "yval", "dev"))
    leaves = int((tree.left < 0).sum())
    title = f"{alone} of {leaves} leaves of the tree hold one record, and its response"
    if len(values) > alone:
        title = f"leaves of the tree determine the responses of {len(values)} of {rows:.0f} records"
    return _finding(look, title, where, values, _bounded(tree, values, nodes), root_items)


def _alone(look: Look, arrays: dict[str, Entry], method: str) -> Finding | None:
    """A finding on a tree of another kind, from leaves that state that they have one record."""
    if not {"n", "yval", "var"} <= set(arrays) or method not in _AVERAGED:
        return None
    count, response = (np.ravel(arrays[name].values) for name in ("n", "yval"))
    is_leaf = np.ravel(arrays["var"].values) == "<leaf>"
    if not len(count) == len(response) == len(is_leaf) or {count.dtype.kind, response.dtype.kind} - set("iuf"):
        return None
    alone = response[is_leaf & (count == 1)].astype(float)
    title = f"{len(alone)} of {int(is_leaf.sum())} leaves of the tree hold one record, and its response"
    return _finding(look, title, tuple(arrays[name].where for name in ("n", "yval")), alone, "", ())


def _forest(look: Look, arrays: dict[str, Entry], trees: list[Tree]) -> Finding | None:
    if not trees:
        return None
    responses = [tree.responses() for tree in trees]
    values, first = np.unique(np.round(np.concatenate([v for v, _ in responses]), 9), return_index=True)
    tree_indices = np.concatenate([np.full(len(v), t) for t, (v, _) in enumerate(responses)])[first]
    nodes = np.concatenate([n for _, n in responses])[first]
    examples = [_bounded(trees[t], values[[k]], nodes[[k]]) for k, t in enumerate(tree_indices[:_SHOWN].tolist())]
    title = f"leaves of the forest that drew one record hold {len(values)} different responses"
    where = tuple(arrays[name].where for name in ("nodepred", "leftDaughter", "rightDaughter"))
    text = f"each of the {len(trees)} trees drew {trees[0].count[0]:.0f} records, as the means of its nodes show; "
    return _finding(look, title, where, values, text + "; ".join(filter(None, examples)), ())


def _lists(look: Look, parent: str, trees: list[tuple[np.ndarray, np.ndarray]]) -> Finding | None:
    """A finding on a list of trees without the means of inner nodes, such as those of ranger.

    The leaves that drew one record have its response, which is in leaves of many trees. Other means are in few.
    """
    leaves = [np.unique(np.round(value[is_leaf], 9)) for is_leaf, value in trees]
    values, counts = np.unique(np.concatenate(leaves), return_counts=True)
    often = values[counts >= max(2, _OFTEN * len(trees))]
    column = look.named(values) or look.named(often)
    severity = "high" if column else of_rows(len(often))
    if severity is None or len(np.unique(np.concatenate([v for _, v in trees]))) < 2 * len(often) / 3:
        return None
    around = parent.rpartition("/")[0].rpartition("/")[0]
    each = [e for e in look.contents.entries if e.kind == "array" and e.where.rpartition("/")[0] == around]
    where = tuple(e.where for e in look.contents.entries if e.where.startswith(parent) and e.kind == "array")
    where += tuple(e.where for e in each if np.size(e.values) > len(often) / 2 >= _FEWEST)
    return Finding(
        "leaves",
        severity,
        f"leaves of the {len(trees)} trees hold responses of single records",
        where,
        f"{len(values)} different values, {len(often)} of them in a tenth of the trees or more, beginning "
        f"{preview(often)}: a leaf that drew one record has its response"
        + (f"; they hold the private column {column}" if column else ""),
        remedies=(Remedy("grow the trees with leaves of many records (min.node.size, min.bucket)"),),
        drop=where,
    )


def _finding(
    look: Look, title: str, where: tuple[str, ...], values: np.ndarray, text: str, root_items: tuple[Item, ...]
) -> Finding | None:
    severity = of_rows(len(values)) or ("medium" if root_items else None)
    if severity is None:
        return None
    column = look.named(values) if len(values) else None
    if not len(values):
        title = f"the root of the tree determines {', '.join(item.name for item in root_items[:4])}"
    return Finding(
        "copy",
        severity,
        title,
        where,
        (f"responses, beginning {preview(values)}" if len(values) else "exactly")
        + (f"; {text}" if text else "")
        + (f"; they are the private column {column}" if column else ""),
        evidence=root_items,
        remedies=(Remedy("grow the tree with leaves of many records (minbucket, nodesize)"),),
        records={"response": values} if len(values) else {},
        errors={"response": np.zeros(len(values))} if len(values) else {},
        drop=where,
    )


def _bounded(tree: Tree, values: np.ndarray, nodes: np.ndarray) -> str:
    """The first records with bounds on their covariates, in words."""
    bounds = tree.bounds()
    lines = []
    for value, node in zip(values[:_SHOWN].tolist(), nodes[:_SHOWN].tolist(), strict=True):
        sides = [_between(name, *ends) for name, ends in bounds[node].items()]
        lines.append(f"{value:.6g} has {', '.join(sides)}" if sides else "")
    return "; ".join(filter(None, lines))


def _between(name: str, low: float, high: float) -> str:
    if np.isfinite(low) and np.isfinite(high):
        return f"{name} from {low:.6g} to {high:.6g}"
    return f"{name} above {low:.6g}" if np.isfinite(low) else f"{name} below {high:.6g}"


CHANNEL = Channel("leaves of trees", find, 11)
