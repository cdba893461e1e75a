"""Was found where the data lie?"""

from bayesrecon.estimation.checks.check import Check, CheckInput


def check_located(inputs: CheckInput) -> tuple[str, ...]:
    """Generic records that show less of the kernel than there is to see are not where the data lie."""
    shown, rank = inputs.features
    if rank is None or shown >= rank:
        return ()
    return (
        f"the location of the data was not found: generic records show {shown} of {rank} features; say in which "
        "range the fields lie with domain=",
    )


CHECK = Check(10, check_located)
