"""Tables of estimates in a file: what they determine about the data."""

from typing import TYPE_CHECKING, cast

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.results.findings import Finding, NotRun

if TYPE_CHECKING:
    from bayesrecon.knowledge import Knows


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Attack the tables of estimates in a file, each with the model that it belongs to."""
    if not look.contents.estimates:
        return [], []
    from bayesrecon.auditing.fit_findings import look_at_estimates
    from bayesrecon.auditing.scoring import scored_table

    asked = look.asked
    found, untried = look_at_estimates(look.contents, cast("Knows", asked.knows), **look.of_fits())
    return [f if used is None else scored_table(f, used, asked.data, asked.known) for f, used in found], untried


CHANNEL = Channel("estimates", find, 80)
