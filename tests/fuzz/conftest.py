"""How much is tried: a few examples, the same in every run; more and random ones with GRADER_FUZZ_EXAMPLES=N."""

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests.fuzz.values import EXAMPLES_VARIABLE

# What hypothesis remembers lies outside of the working tree; nothing is taken from there, so that a run is the same everywhere.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"grader-fuzz-{os.getuid()}")

_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture)

settings.register_profile(
    "small",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_CHECKS,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
settings.register_profile(
    "long",
    max_examples=int(os.environ.get(EXAMPLES_VARIABLE, "1000")),
    derandomize=False,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=_CHECKS,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
settings.load_profile("long" if EXAMPLES_VARIABLE in os.environ else "small")
