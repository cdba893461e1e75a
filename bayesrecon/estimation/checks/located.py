"""Was the location of the data found?"""

from bayesrecon.estimation.checks.check import Check, CheckInput


def check_located(inputs: CheckInput) -> tuple[str, ...]:
    """A message if generic records show fewer features than the kernel has, so that they are not near the data."""
    visible, rank = inputs.features
    if rank is None or visible >= rank:
        return ()
    return (
        f"the location of the data was not found: random records show only {visible} of {rank} features; state the "
        "range of the fields with domain=",
    )


CHECK = Check(10, check_located)
