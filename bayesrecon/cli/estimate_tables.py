"""Tables of estimates with standard errors on the command line."""

from collections.abc import Sequence

from bayesrecon.errors import BayesreconError


def is_table(file: str) -> bool:
    """Whether a file is a table of estimates."""
    from bayesrecon.posteriors.recognition import as_table

    return as_table(file)


def correlations_of(files: Sequence[str], correlations: Sequence[str] | None) -> list[str | None]:
    """The file of correlations for each table, in order; None for each if there are no such files."""
    if not correlations:
        return [None] * len(files)
    if not all(is_table(file) for file in files):
        raise BayesreconError("--correlations needs tables of estimates with standard errors")
    if len(correlations) != len(files):
        raise BayesreconError(
            f"{len(correlations)} --correlations for {len(files)} table{'s' * (len(files) > 1)}; give one for each, in "
            "their order"
        )
    return list(correlations)
