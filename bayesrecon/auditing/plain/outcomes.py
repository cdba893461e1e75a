"""Outcomes of single records, in leaves of trees and at steps of survival curves, and summaries beside the draws."""

import re

import numpy as np

from bayesrecon.attacks.sidechannels.trees import Tree, lists_of_trees, of_classes, of_forest, of_rpart
from bayesrecon.auditing.inventory import siblings
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.wording import preview, to_drop
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import ESTIMATE, LEAF, TIMES
from bayesrecon.results.findings import Finding, Item, NotRun
from bayesrecon.results.told import values_in

_SHOWN = 3  # records whose bounds are listed
_OFTEN, _FEWEST = 0.1, 8  # share of the trees in which a response recurs; fewest records with values beside the trees
_FRAME, _FOREST = "frame/", "forest/"
_AVERAGED = {"", "anova", "class"}
"""Methods of rpart whose leaves with one record contain its response. Rates are shrunk towards other records."""


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding for each tree, forest and survival curve that reveals outcomes, and one on summaries of draws."""
    rest = [e for e in look.contents.entries if e.where not in look.reported]
    entries = {e.where: e for e in rest if e.kind in ("array", "labels", "text")}
    found: list[Finding | None] = []
    for parent, arrays in siblings(entries.values()).items():
        if any(e.role == LEAF for e in arrays.values()) and parent.endswith(_FRAME):
            found.append(_of_frame(look, arrays, entries, parent.removesuffix(_FRAME)))
        elif any(e.role == LEAF for e in arrays.values()) and parent.endswith(_FOREST):
            names = entries.get(f"{parent}ncat@names")
            trees = of_forest(arrays, [] if names is None else [str(v) for v in np.ravel(names.values)])
            found.append(_forest(look, arrays, trees) if trees else None)
        elif all(name in arrays and arrays[name].role == TIMES for name in _COUNTED):
            found.append(_events(look, [arrays[name] for name in _COUNTED]))
    found += [_lists(look, parent, trees) for parent, trees in lists_of_trees(rest).items()]
    return [f for f in (*found, _summaries(look)) if f is not None], []


def _of_frame(look: Look, arrays: dict[str, Entry], entries: dict[str, Entry], root: str) -> Finding | None:
    """A finding on a tree of rpart."""
    if (tree := of_rpart(arrays, entries, root)) is not None:
        return _tree(look, arrays, tree, _moments(tree))
    if (classes := of_classes(arrays, entries, root)) is not None:
        counts = (Item(f"n[response={name}]", float(count), 0.0) for name, count in classes[1].items())
        return _tree(look, arrays, classes[0], tuple(counts))
    return _alone(look, arrays, str(entries[f"{root}method"].values if f"{root}method" in entries else ""))


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
    return to_drop(
        "leaves",
        severity,
        f"leaves of the {len(trees)} trees hold responses of single records",
        where,
        f"{len(values)} different values, {len(often)} of them in a tenth of the trees or more, beginning "
        f"{preview(often)}: a leaf that drew one record has its response",
        column=column,
        instead="grow the trees with leaves of many records (min.node.size, min.bucket)",
    )


def _finding(
    look: Look, title: str, where: tuple[str, ...], values: np.ndarray, text: str, root_items: tuple[Item, ...]
) -> Finding | None:
    severity = of_rows(len(values)) or ("medium" if root_items else None)
    if severity is None:
        return None
    if not len(values):
        title = f"the root of the tree determines {', '.join(item.name for item in root_items[:4])}"
    return to_drop(
        "copy",
        severity,
        title,
        where,
        (f"responses, beginning {preview(values)}" if len(values) else "exactly") + (f"; {text}" if text else ""),
        column=look.named(values) if len(values) else None,
        instead="grow the tree with leaves of many records (minbucket, nodesize)" if len(values) else "",
        leaves="medium" if len(values) and root_items else "info",
        evidence=root_items,
        records={"response": values} if len(values) else {},
        errors={"response": np.zeros(len(values))} if len(values) else {},
    )


def _bounded(tree: Tree, values: np.ndarray, nodes: np.ndarray) -> str:
    """The first records with bounds on their covariates, in words."""
    bounds = tree.bounds()
    lines = []
    for value, node in zip(values[:_SHOWN].tolist(), nodes[:_SHOWN].tolist(), strict=True):
        sides = [_between(name, *ends) for name, ends in bounds[node].items()]
        lines.append(values_in(f"{value:.6g} has {', '.join(sides)}") if sides else "")
    return "; ".join(filter(None, lines))


def _between(name: str, low: float, high: float) -> str:
    if np.isfinite(low) and np.isfinite(high):
        return f"{name} from {low:.6g} to {high:.6g}"
    return f"{name} above {low:.6g}" if np.isfinite(low) else f"{name} below {high:.6g}"


_MOST_TIMES = 2**20  # largest number of records that are listed one by one
_SUMMARY = {"summary", "inits", "mean_pars", "mean_lp__", "coefficients", "ses", "covmat", "stan_summary"}
_COUNTED = ("time", "n.event", "n.censor")
_COLUMNS = 16  # largest number of summary numbers per column of the draws


def _summaries(look: Look) -> Finding | None:
    """A finding on summaries of draws that are also in the file."""
    of_draws = tuple(f"{e.where}{sign}" for e in look.contents.estimates if e.of_draws for sign in "/@")
    if look.contents.draws is None or not of_draws:
        return None
    most = _COLUMNS * (sum(int(np.prod(v.shape, dtype=int)) for v in look.contents.variables) + 1)
    summaries = (e for e in look.contents.entries if e.role == ESTIMATE and _SUMMARY & set(re.split("[/@]", e.where)))
    where = tuple(e.where for e in summaries if e.where.startswith(of_draws) and np.size(e.values) <= most)
    gives = "means, deviations and quantiles of the draws reveal the same statistics as the draws, less precisely"
    title = "summaries of the draws are in the file"
    return to_drop("draws summary", "low", title, where, gives) if where else None


def _events(look: Look, entries: list[Entry]) -> Finding | None:
    """A finding on a survival curve, whose steps and counts reveal every record's time and whether it was an event."""
    time, event, censored = (np.ravel(np.asarray(e.values, float)) for e in entries)
    counts = np.concatenate([event, censored])
    if not len(time) == len(event) == len(censored) or not _are_counts(counts):
        return None
    times = np.repeat(np.concatenate([time, time]), counts.astype(int))
    died = np.repeat(np.repeat([1.0, 0.0], len(time)), counts.astype(int))
    return to_drop(
        "copy",
        of_rows(len(times)) or "medium",
        f"the survival curve gives the time of each of {len(times)} records, and whether it was an event",
        tuple(e.where for e in entries),
        f"times, beginning {preview(np.sort(times))}; {int(died.sum())} of them events",
        column=look.named(times),
        instead="publish the curve at a few round times: summary(fit, times = ...)",
        records={"time": times, "event": died},
        errors={"time": np.zeros(len(times)), "event": np.zeros(len(times))},
    )


def _are_counts(values: np.ndarray) -> bool:
    return bool(np.all((values >= 0) & (values == np.round(values))) and 0 < values.sum() <= _MOST_TIMES)


CHANNEL = Channel("outcomes", find, 11)
