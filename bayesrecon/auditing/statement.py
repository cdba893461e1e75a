"""What an audit says of a file, for those who receive it: an in-toto statement, and SARIF for code hosts.

Both are made to be published. They hold digests of the published bytes and arrays, counts of findings and names of
attacks, and nothing that was computed from a private table but the verdict.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.auditing.channel import channels
from bayesrecon.auditing.look import Needs
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Contents, stamp
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.results.audit import Audit

PREDICATE = "tag:bayesrecon,2026:audit/1"
"""Type of the predicate. Another number is another form."""

_STATEMENT = "https://in-toto.io/Statement/v1"
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LARGEST = 2**20  # bytes of a statement
_LEVELS = {"high": "error", "medium": "warning", "low": "note", "info": "none"}
_NAMESPACE, _SIGNER = "file", "signer"  # of signatures by ssh-keygen

Compared = Literal["bytes equal", "contents equal", "different"]


def statement(audit: Audit, policy: Json | None = None) -> Json:
    """The in-toto statement of an audit (https://in-toto.io/Statement/v1), which can be signed and published.

    Args:
        audit: the audit of files, as they will be published.
        policy: digest and decision of the policy that decided, if one did.

    Raises:
        BayesreconError: what was audited is no file, or has changed since.

    >>> import bayesrecon
    >>> np.savez("fit.npz", mu=np.zeros((2, 50)))
    >>> made = statement(bayesrecon.audit("fit.npz", rows="draws"))
    >>> made["predicate"]["verdict"], verified("fit.npz", made)
    ('incomplete', 'bytes equal')
    """
    if not audit.files:
        raise BayesreconError("a statement is about files, and these draws are in none")
    subjects = []
    for file in audit.files:
        path = Path(file["path"])
        if not path.exists():
            raise BayesreconError(f"{path.name}: a statement is about files that are there; unpack archives first")
        if (found := digests(path))["sha256"] != file["sha256"]:
            raise BayesreconError(f"{path.name}: it has changed since it was audited; audit it again")
        subjects.append({"name": path.name, "digest": found})
    needs: tuple[Needs, ...] = ("nothing", "model") if audit.model else ("nothing",)
    not_tried = list(dict.fromkeys(n.attack for n in audit.not_run))
    tried = [channel.name for channel in channels(needs)[0] if channel.name not in not_tried]
    predicate = {
        "auditor": {"name": "bayesrecon", "version": __version__},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": audit.model,
        "verdict": audit.verdict,
        "severity": audit.severity,
        "findings": dict(Counter(finding.severity for finding in audit)),
        "tried": tried,
        "not_tried": not_tried,
        "thresholds": asdict(audit.thresholds),
        "compared_with_private_data": bool(audit.settings.get("data")),
        "compared_with_earlier_outputs": bool(audit.settings.get("earlier")),
        "policy": policy,
    }
    return {"_type": _STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": predicate}


def sarif(audit: Audit) -> Json:
    """The findings in SARIF 2.1.0: kind and severity of each, without names or values."""
    kinds = sorted({finding.kind for finding in audit})
    places = [{"physicalLocation": {"artifactLocation": {"uri": Path(f["path"]).name}}} for f in audit.files]
    text = "{} finding of kind {}. The confidential report says where, and what it discloses."
    results = [
        {
            "ruleId": finding.kind,
            "level": _LEVELS[finding.severity],
            "message": {"text": text.format(finding.severity.capitalize(), finding.kind)},
            "locations": places,
        }
        for finding in audit
    ]
    driver = {"name": "bayesrecon", "semanticVersion": __version__, "rules": [{"id": kind} for kind in kinds]}
    whole = {"executionSuccessful": audit.verdict != "incomplete"}
    run = {"tool": {"driver": driver}, "invocations": [whole], "results": results}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}


def read_statement(path: str | Path) -> Json:
    """A statement that `audit --statement` wrote.

    Raises:
        BayesreconError: the file is no such statement.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST:
            raise BayesreconError(f"{path}: it is too large for a statement")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BayesreconError(f"{path}: cannot be read as a statement ({type(error).__name__})") from None
    subjects = found.get("subject") if isinstance(found, dict) and found.get("_type") == _STATEMENT else None
    listed = subjects if isinstance(subjects, list) else [None]
    if not all(isinstance(one, dict) and isinstance(one.get("digest"), dict) for one in listed):
        raise BayesreconError(f"{path}: this is no in-toto statement (audit --statement writes one)")
    if found.get("predicateType") != PREDICATE or not isinstance(found.get("predicate"), dict):
        raise BayesreconError(f"{path}: this statement is not of an audit of this version, {PREDICATE}")
    return found


def verified(path: str | Path, made: Json) -> Compared:
    """How a file agrees with a statement: by its bytes, by its arrays alone (then audit it again), or not."""
    path = Path(path)
    if not path.exists():
        raise BayesreconError(f"{path}: no such file")
    stated = [one["digest"] for one in made["subject"]]
    if stamp(path).sha256 in (one.get("sha256") for one in stated):
        return "bytes equal"
    arrays = [one["arrays"] for one in stated if "arrays" in one]
    if arrays and digests(path).get("arrays") in arrays:
        return "contents equal"
    return "different"


def is_signed(path: str | Path, key: str | Path) -> bool:
    """Whether PATH.sig is a signature of a file by a key, as `ssh-keygen -Y sign -n file -f KEY PATH` makes it.

    Args:
        path: the signed file.
        key: the public key of the signer, as ssh-keygen writes it.

    Raises:
        BayesreconError: the key cannot be read, or ssh-keygen is not installed.
    """
    path, program = Path(path), shutil.which("ssh-keygen")
    signature = path.with_name(path.name + ".sig")
    if not signature.is_file():
        return False
    if program is None:
        raise BayesreconError("signatures are checked by ssh-keygen, which is not installed (OpenSSH 8.1 or later)")
    try:
        words = Path(key).read_text(encoding="utf-8").split()[:2]
    except (OSError, UnicodeDecodeError) as error:
        raise BayesreconError(f"{key}: cannot be read ({type(error).__name__})") from None
    if len(words) != 2 or not words[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise BayesreconError(f"{key}: expected a public key such as id_ed25519.pub")
    with tempfile.TemporaryDirectory() as folder:
        allowed = Path(folder, "signers")
        allowed.write_text(f"{_SIGNER} {' '.join(words)}\n", encoding="utf-8")
        asked = [program, "-Y", "verify", "-f", str(allowed), "-I", _SIGNER, "-n", _NAMESPACE, "-s", str(signature)]
        with path.open("rb") as file:
            done = subprocess.run(asked, stdin=file, capture_output=True, check=False)
    return not done.returncode


def digests(path: Path) -> dict[str, str]:
    """Digests of the bytes, and of the arrays of a file that has some."""
    found = {"sha256": stamp(path).sha256}
    try:
        contents = read_leaves(str(path))
    except BayesreconError:  # a printed table
        return found
    return found if (arrays := _of_arrays(contents)) is None else {**found, "arrays": arrays}


def _of_arrays(contents: Contents) -> str | None:
    """The digest of names, shapes and values of all arrays, in order of their names, whatever the format.

    Numbers count as double precision, signs of zeros and bits of NaN do not count.
    """
    arrays = {variable.where: variable.values for variable in contents.variables}
    arrays |= {entry.where: np.asarray(entry.values) for entry in contents.entries if entry.kind == "array"}
    if not arrays:
        return None
    whole = hashlib.sha256()
    for where, values in sorted(arrays.items()):
        whole.update(json.dumps([where, values.shape]).encode())
        if values.dtype.kind in "biuf":
            numbers = values.astype("<f8") + 0.0
            numbers[np.isnan(numbers)] = np.nan
            whole.update(np.ascontiguousarray(numbers).tobytes())
        else:
            whole.update(json.dumps(list(map(str, values.ravel()))).encode())
    return whole.hexdigest()
