"""Were draws rounded so much that totals are affected?"""

from bayesrecon.estimation.checks.check import Check, CheckInput
from bayesrecon.estimation.rounding import rounding_failure


def check_rounded(inputs: CheckInput) -> tuple[str, ...]:
    rounded = rounding_failure(inputs.release, inputs.independent)
    return () if rounded is None else (rounded,)


CHECK = Check(20, check_rounded)
