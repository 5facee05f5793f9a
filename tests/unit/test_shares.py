"""The sum that fair shares are drawn from."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from grader.ledger.transactions import HALF_LIFE_S, added

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seconds(weight, now):
    """Return what a weight stands for at a time."""
    return 2 ** (weight - now.timestamp() / HALF_LIFE_S)


def test_seconds_are_added_and_count_half_after_the_half_life():
    for first, second in ((3.0, 4.0), (4.0, 3.0)):
        assert seconds(added(added(None, first, NOW), second, NOW), NOW) == pytest.approx(7.0, rel=1e-6)
    later = NOW + timedelta(seconds=HALF_LIFE_S)
    assert seconds(added(added(None, 8.0, NOW), 2.0, later), later) == pytest.approx(6.0, rel=1e-6)


@pytest.mark.parametrize("years", [1, 100, 5000])
def test_no_time_is_too_late(years):
    """Where the sum itself would not be a number any more."""
    later = NOW + timedelta(days=365 * years)
    weight = added(added(None, 1e9, NOW), 1e-6, later)
    assert math.isfinite(weight) and seconds(weight, later) == pytest.approx(1e-6, rel=1e-3)
