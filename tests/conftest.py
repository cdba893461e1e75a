"""Fixtures that several files share."""

import os
import sys

import pytest


@pytest.fixture(autouse=True)
def no_figures_left():
    """Figures that a test drew are closed after it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def database():
    """The copy of posteriordb that POSTERIOR_DB_PATH points to."""
    if not os.environ.get("POSTERIOR_DB_PATH"):
        reason = "POSTERIOR_DB_PATH is not set"
        pytest.fail(reason) if os.environ.get("BAYESRECON_REQUIRE_DATA") == "1" else pytest.skip(reason)
    from bayesrecon.posteriors.database import open_database

    return open_database()
