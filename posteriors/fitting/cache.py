"""The user's cache of sampled posteriors: one archive of draws for each run."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesrecon._version import __version__
from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.files import cache_folder, private_folder, write_whole
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release


def cache_path(name: str, model: Model, records: Records, run: Mapping[str, object]) -> Path:
    """The path of the draws of one run. The file's name has a hash of the data, program, settings and versions.

    Two names of the same posterior share one file, for example those of a centred and a non-centred program.

    Args:
        name: the posterior's name. The part before its first dash begins the file's name. In posteriordb, this part is
            the name of the data.
        model, records: the posterior. The compiled text of the program is hashed, so comments and names in it do not
            matter, but numbers do.
        run: settings of the sampler.
    """
    identity = {
        "run": dict(run),
        "versions": versions(),
        "data": _hash_records(records),
        "program": _hash_program(model, records),
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{name.partition('-')[0]}-{digest[:16]}.npz"


def versions() -> dict[str, str]:
    """Versions of the packages on which the draws of a seed depend, by package."""
    return {"bayesrecon": __version__, "numpyro": version("numpyro"), "jax": version("jax")}


@in_float64
def store(path: Path, release: Release, attributes: Mapping[str, object]) -> None:
    """Write the draws of a release, in the model's own parameters, as an archive that `from_npz` reads."""
    from bayesrecon.diagnostics import by_chain
    from bayesrecon.posteriors.formats.npz import ATTRIBUTES

    params = jax.jit(jax.vmap(release.model.constrain))(release.theta)
    chain = np.asarray(release.chain)
    arrays: dict[str, Any] = {}
    for p in release.model.parameters:
        values = by_chain(np.asarray(params[p.name]).reshape(release.size, -1), chain)
        arrays[p.name] = values.reshape(*values.shape[:2], *p.shape)
    arrays[ATTRIBUTES] = np.array(json.dumps({k: str(v) for k, v in attributes.items()}))
    try:
        private_folder(path.parent)
        write_whole(path, lambda target: np.savez(target, **arrays))
    except OSError as error:
        raise BayesreconError(
            f"cannot write {path} ({error.strerror}); set BAYESRECON_CACHE to a folder that can be written"
        ) from error


def _hash_records(records: Records) -> str:
    digest = hashlib.sha256()
    for field in sorted(records):
        values = np.ascontiguousarray(records[field])
        digest.update(f"{field} {values.dtype.str} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


@in_float64
def _hash_program(model: Model, records: Records) -> str:
    def log_posterior(theta: Array, batch: Records) -> jax.Array:
        terms = jax.vmap(model.log_lik, (None, 0))(theta, batch)
        return terms.sum() + model.log_prior(theta) + model.log_det(theta)

    two_records = {k: np.asarray(v[:1]).repeat(2, axis=0) for k, v in records.items()}
    traced = jax.jit(log_posterior).trace(np.zeros(model.dimension), two_records)
    # For one platform, so that the text does not depend on the device.
    return hashlib.sha256(traced.lower(lowering_platforms=("cpu",)).as_text().encode()).hexdigest()
