"""Which part of a server is at its end first, from figures of steps."""

import pytest

from tools.service.saturation import Seen, first_limit, step

BEFORE = Seen(server_cpu_s=1, others_cpu_s=2, idle_s=3, commits=10, transactions=20, busy_s=1, facts=100)


def measured(lanes, *, server_s=1.0, busy_s=1.0, graded=600):
    """Ten seconds of a server."""
    after = Seen(server_cpu_s=1 + server_s, others_cpu_s=3, idle_s=13, commits=110, transactions=420, busy_s=1 + busy_s, facts=1100)
    return step(BEFORE, after, 10.0, [0.001, 0.002, 0.003], lanes=lanes, graded=graded, wait_s=0.05)


def test_figures_are_of_the_time_in_between():
    """Rates by the second, means by the commit, shares of what there is at most."""
    found = measured(8)
    assert (found.per_minute, found.submit_p99_ms, found.server_cores, found.facts_per_s) == (3600, 3, 0.1, 100)
    assert (found.commits_per_s, found.transactions_per_s, found.commit_ms, found.ledger_share) == (10, 40, 10, 0.1)
    assert found.lanes_share == pytest.approx(600 * 0.05 / 10 / 8)


def test_the_first_step_at_its_end_is_named():
    """And not the last one, where more is."""
    steps = [measured(8), measured(16, busy_s=9.5), measured(32, server_s=9.9, busy_s=9.8)]
    assert first_limit(steps).startswith("the ledger's writer: 95% at 16 lanes")


def test_where_nothing_is_at_its_end_the_nearest_is_named():
    """At the step with the most submissions."""
    assert first_limit([measured(8), measured(16, server_s=7, graded=900)]).startswith("none; nearest is the server's interpreter")
