"""Digits of published numbers, where a policy states how many there may be."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import places
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.printed.reading import as_printed
from bayesrecon.results.findings import Finding, NotRun, Remedy

NAME = "digits"

_FULL = 17  # significant digits that tell a number in double precision from every other one
_NUMBER = re.compile(r"[-+−]?(\d*[.,]\d+|\d+[.,]\d*)(?:e[-+]?\d+)?", re.IGNORECASE)


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding on all numbers with too many digits. Whole numbers do not count."""
    most = look.asked.thresholds.digits
    if not most or look.together:
        return [], []
    seen = dict(_digits(look))
    where = tuple(place for place, count in seen.items() if count > most)
    if not where:
        remedy = "look at its digits yourself, or publish a table of what readers need"
        closed = NotRun(NAME, "its numbers are neither printed nor arrays that are read", remedy)
        return [], [] if seen else [closed]
    title = f"numbers have more than {most} digits: {places(where, 3)}"
    summary = f"up to {min(max(seen.values()), _FULL)} significant digits, in {len(where)} of {len(seen)} places"
    cure = (Remedy(f"round to {most} digits", leaves="info"),)
    return [Finding(NAME, "medium", title, where, summary, "nothing but the file", remedies=cure)], []


def _digits(look: Look) -> Iterator[tuple[str, int]]:
    """The largest number of significant digits of the numbers at each place that has numbers with decimals."""
    contents = look.contents
    arrays = [(v.where, v.values) for v in contents.variables]
    arrays += [(entry.where, entry.values) for entry in contents.entries if entry.kind == "array"]
    for where, values in arrays:
        numbers = np.asarray(values)
        if numbers.dtype.kind == "f" and numbers.size and not np.array_equal(numbers, np.round(numbers)):
            yield where, resolution(numbers).digits or _FULL
    if look.fit is not None and len(contents.files) == 1:
        try:
            cells = as_printed(Path(contents.files[0].path)).frame.to_numpy(object)
        except BayesreconError:  # the fit is in a file of another kind
            return
        found = (_NUMBER.match(str(text).strip()) for text in np.ravel(cells))
        texts = [re.sub("[.,]", "", match[1]).lstrip("0") for match in found if match]
        if texts:
            yield contents.name, max(map(len, texts))


CHANNEL = Channel(NAME, find, 75)
