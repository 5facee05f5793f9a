"""A server with a competition, a graded submission and its files, called over gRPC and over HTTP."""

from functools import partial

import pytest

from grader_extensions.http.tests.served import served
from tests.server.conftest import grade, place, quiet, settings  # noqa: F401  # fixtures


@pytest.fixture
def serve(settings, place):  # of the fixtures
    """Starts a server that asks for keys, unless `auth` says otherwise."""
    return partial(served, settings, place)
