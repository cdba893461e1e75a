"""Files of R: `.rds`, `.RData`, `.rda`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.model import Progress
from bayesrecon.posteriors.contents import Contents, Variable, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, assembled, levels_of
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.r.entries import entries_of
from bayesrecon.posteriors.r.estimates import estimates_of
from bayesrecon.posteriors.r.places import PlaceWalk
from bayesrecon.posteriors.r.r_objects import RObjects
from bayesrecon.posteriors.r.recognised import known_class, roles
from bayesrecon.posteriors.r.samples import LOG_DENSITY, ObjectDraws, samples_of
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.r_file import RFile

_NAME = "R file"
_STATISTICS = {
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
"""ArviZ's names of Stan's sampler statistics."""


def read_walk(source: Path, trusted: bool = False) -> PlaceWalk:
    """All objects of a file.

    Raises:
        BayesreconError: the file is damaged, its unpacked size is too large, or it has too many objects.
    """
    with reading(source, f"an {_NAME}"), opened(RFile, source, trusted) as file:
        return PlaceWalk(RObjects(file.read(trusted)))


def read_r_draws(source: Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """The draws in a file.

    Raises:
        BayesreconError: the file is damaged or has no draws.
    """
    path = Path(source)
    with reading(path, f"an {_NAME}"):
        result = samples_of(read_walk(path, trusted))
        if result is None:
            raise BayesreconError(f"{path}: it has no draws (of coda, posterior, Stan, brms or rstanarm)")
        return _draws(result, name or path.stem)


def read_r_contents(
    source: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Everything in a file: draws if there are any, estimates of fits, and all other objects with their places."""
    path = Path(source)
    with reading(path, f"an {_NAME}"), np.errstate(all="ignore"):  # numbers in an untrusted file can have any size
        walk = read_walk(path, trusted)
        samples = samples_of(walk)
        roles_by_place = roles(walk)
        if samples is not None:
            remaining = [k for k, place in enumerate(walk.places) if place.node not in samples.nodes]
            roles_by_place = {i: roles_by_place[k] for i, k in enumerate(remaining) if k in roles_by_place}
            walk.places = [walk.places[k] for k in remaining]
        entries, unread = entries_of(walk, roles_by_place)
        files = (stamp(path),)
        title = name or path.name
        if samples is None:
            result = Contents(title, _title(walk), files)
        else:
            result = from_named_draws(_draws(samples, title), _title(walk), files)
            levels = {f"posterior/{base}": names for base, names in levels_of(samples.columns).items()}
            variables = (*result.variables, *_sampler_variables(samples))
            result = replace(result, variables=variables, coordinates=levels, program=samples.program)
        return replace(result, entries=tuple(entries), unread=tuple(unread), estimates=tuple(estimates_of(walk)))


def _title(walk: PlaceWalk) -> str:
    """The name of the format, with descriptions of up to three known objects."""
    descriptions = [known_class(walk.objects, node) for _, node in walk.objects.objects()]
    known = [text for text in dict.fromkeys(descriptions) if text]
    return f"{_NAME}: {', '.join(known[:3])}" if known else _NAME


def _draws(samples: ObjectDraws, name: str) -> Draws:
    columns = {k: v for k, v in samples.columns.items() if k != LOG_DENSITY}
    return Draws(assembled(columns), samples.columns.get(LOG_DENSITY), name)


def _sampler_variables(samples: ObjectDraws) -> list[Variable]:
    """Statistics of the sampler, and draws of the warm-up."""
    result = [
        Variable("sample_stats", _STATISTICS.get(name, name), (), True, np.ravel(values))
        for name, values in samples.statistics.items()
    ]
    for name, values in assembled(samples.warmup).items():
        group = "warmup_sample_stats" if name == LOG_DENSITY else "warmup_posterior"
        result.append(Variable(group, "lp" if name == LOG_DENSITY else name, values.shape, False, values))
    return result


FORMAT = Format(_NAME, (".rds", ".rdata", ".rda"), read_r_draws, read_r_contents, guarded=True)
