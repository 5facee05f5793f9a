"""The sections, in the order in which they run: what takes little first, what may harm a lane last."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from tools.gpu.run import Run
from tools.gpu.sections import agreement, examples, exploits, honest_set, lanes, naive, same, six, soak, suites


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section to be made. budget_s: when it stops beginning anything; about as much as it takes on an H200, and some."""

    title: str
    budget_s: float
    run: Callable[[Run], Coroutine[None, None, None]]


PARTS = {
    "naive": Part(title="A naive harness and stale memory", budget_s=90, run=naive.run),
    "six": Part(title="The six of tril_matmul", budget_s=240, run=six.run),
    "agreement": Part(title="Three clocks on the same kernels", budget_s=330, run=agreement.run),
    "aa": Part(title="A kernel against itself", budget_s=1000, run=same.run),
    "lanes": Part(title="Two lanes on two GPUs", budget_s=330, run=lanes.run),
    "honest": Part(title="Honest twins", budget_s=240, run=suites.suite("honest")),
    "attacks": Part(title="Attacks", budget_s=420, run=suites.suite("attacks")),
    "exploits": Part(title="Every attack of the corpus", budget_s=600, run=exploits.run),
    "honest_set": Part(title="Every honest kernel", budget_s=600, run=honest_set.run),
    "examples": Part(title="Every example", budget_s=900, run=examples.run),
    "conformance": Part(title="Conformance", budget_s=240, run=suites.suite("conformance")),
    "tests": Part(title="The other GPU tests", budget_s=420, run=suites.suite("tests")),
    "faults": Part(title="Faults", budget_s=300, run=suites.suite("faults")),
    "soak": Part(title="Many in a row", budget_s=510, run=soak.run),
}
