"""Were draws rounded so that it is felt?"""

from bayesrecon.estimation.checks.check import Check, Looked
from bayesrecon.estimation.rounding import felt_rounding


def check_rounded(looked: Looked) -> tuple[str, ...]:
    rounded = felt_rounding(looked.release, looked.independent)
    return () if rounded is None else (rounded,)


CHECK = Check(20, check_rounded)
