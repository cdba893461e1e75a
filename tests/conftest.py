"""Fixtures that several files share."""

import os

import pytest


@pytest.fixture(scope="session")
def database():
    """The copy of posteriordb that POSTERIOR_DB_PATH points to."""
    if not os.environ.get("POSTERIOR_DB_PATH"):
        reason = "POSTERIOR_DB_PATH is not set"
        pytest.fail(reason) if os.environ.get("BAYESRECON_REQUIRE_DATA") == "1" else pytest.skip(reason)
    from bayesrecon.posteriors.database import open_database

    return open_database()
