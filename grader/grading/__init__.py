"""From a lease to facts: build, run in fresh processes, judge. It owns no box and no database; both come through its ports."""
