"""How much is tried: a few examples, the same in every run; more and random ones with GRADER_FUZZ_EXAMPLES=N."""

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests.fuzz.values import EXAMPLES_VARIABLE

# What hypothesis remembers lies outside of the working tree; nothing is taken from there, so that a run is the same everywhere.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"grader-fuzz-{os.getuid()}")

_COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": (
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
}
_LONG_EXAMPLES = int(os.environ.get(EXAMPLES_VARIABLE, "1000"))
settings.register_profile("small", max_examples=25, derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=_LONG_EXAMPLES, derandomize=False, print_blob=False, **_COMMON)
settings.load_profile("long" if EXAMPLES_VARIABLE in os.environ else "small")
