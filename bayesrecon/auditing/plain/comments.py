"""Comments in CmdStan's files: paths, the seed, the mass matrix, and lines that CmdStan does not write."""

import re
from collections.abc import Iterable, Sequence

from bayesrecon.auditing.accounts.comments import odd_lines
from bayesrecon.auditing.accounts.texts import PATH
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.plain.attributes import judge
from bayesrecon.auditing.short_text import SHOW, short
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity

_NUMBER = re.compile(r"-?[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?")


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on comments. Other lines that CmdStan does not write are unrecognised."""
    lines = look.contents.comments
    reports: list[tuple[Severity, str, str, str]] = [("low", *one) for one in _revealed_by(lines)]
    reports += _rows_in(look, odd_lines(lines))
    drop, remedies = ("comments",), (Remedy("drop the comments"),)
    findings = [
        Finding("comments", severity, title, drop, summary, needs, remedies=remedies, drop=drop)
        for severity, title, summary, needs in reports
    ]
    return findings, []


def _rows_in(look: Look, lines: Sequence[str]) -> list[tuple[Severity, str, str, str]]:
    """What texts that CmdStan did not write hold: private columns, e-mail addresses, rows of data."""
    for text in (*lines[:1000], "\n".join(lines)) if lines else ():
        severity, what = judge("", text, look)
        if severity == "high":
            return [("high", f"the comments hold {what}", short(text), "nothing but the file")]
    return []


def _revealed_by(lines: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    """Title, evidence and what an attacker needs, for everything that CmdStan's own lines reveal."""
    settings = dict(_setting(line) for line in lines if "=" in line)
    data = [v for k, v in settings.items() if k in ("file", "data file", "data_file") and v]
    paths = sorted({m.group(0) for line in lines for m in PATH.finditer(line)} | set(data))
    if paths:
        yield (
            "the comment header holds file names of the machine it was made on",
            f"{', '.join(short(p) for p in paths[:SHOW])}: a user's name, a project, the data file",
            "nothing but the file",
        )
    if "seed" in settings:
        yield (
            "the comment header holds the random seed",
            f"seed = {short(settings['seed'])}: with it, a guess of the whole data set can be confirmed to the last "
            "digit by running the sampler again",
            "the program, the sampler's version and a guess of the data",
        )
    start = next((i for i, line in enumerate(lines) if "inverse mass matrix" in line.lower()), None)
    if start is not None:
        numbers = _NUMBER.findall(" ".join(lines[start + 1 : start + 2]))
        yield (
            "the comments hold step size and mass matrix of the warm-up",
            f"{len(numbers)} or more entries, beginning {', '.join(numbers[:SHOW])}: the posterior's variances from "
            "draws that were not published; they stay when draws are thinned or rounded",
            "the model",
        )


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip().lower(), value.strip().removesuffix("(Default)").strip()


CHANNEL = Channel("comments", find, 60)
