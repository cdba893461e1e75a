"""Categorical fields: which of them have category counts that the release determines."""

from collections.abc import Mapping, Sequence

from bayesrecon.estimation.categories import categories
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Component, Library, Part, moments
from bayesrecon.model import Field


def counted(
    solved: Fit, fields: Mapping[str, Field], unknown: Sequence[Component]
) -> tuple[dict[str, list[Part]], dict[str, list[Part]]]:
    """Categories of the fields whose values are codes, by the component's name, in two dictionaries.

    The first has the fields whose category counts are determined in the limit of infinitely many draws. The second has
    the others, of which the mean of the codes may still be determined.
    """
    determined: dict[str, list[Part]] = {}
    undetermined: dict[str, list[Part]] = {}
    for component in unknown:
        indicators = categories(component, fields[component.field].domain)
        if not indicators:
            continue
        library = Library({**moments(()).parts, **{part.name: part for part in indicators}})
        values = library.evaluate(solved.probes)
        fitted = solved.project(values, limit=True).fitted
        visibility = library.visibility(values, fitted, solved.basis.size)[1:]
        all_determined = all(solved.law.verdict(float(v)) == "determined" for v in visibility)
        (determined if all_determined else undetermined)[component.name] = indicators
    return determined, undetermined
