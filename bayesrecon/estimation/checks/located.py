"""Was found where the data lie?"""

from bayesrecon.estimation.checks.check import Check, CheckInput


def check_located(inputs: CheckInput) -> tuple[str, ...]:
    """Generic records that show less of the kernel than there is to see are not where the data lie."""
    visible, rank = inputs.features
    if rank is None or visible >= rank:
        return ()
    return (
        f"the location of the data was not found: generic records show {visible} of {rank} features; say in which "
        "range the fields lie with domain=",
    )


CHECK = Check(10, check_located)
