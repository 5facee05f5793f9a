"""Twenty kernels with a race, and the same with the race put right."""

from collections.abc import Callable
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.sanitizer_log import read_log
from grader_extensions.emulated_cuda.tests.conformance.conftest import compile_sanitized, run
from sandbox.protocol.wire import SanitizerFinding, SanitizerKind, SanitizerSeverity

pytestmark = pytest.mark.slow
RACES = Path(__file__).parent / "programs" / "races.cu"
NUMBERS = range(1, 21)
# A plain read of what others count with atomics: the value is one of several, and none is torn.
MILD = {15}
Look = Callable[[int], list[SanitizerFinding]]


def built(folder: Path, *flags: str) -> Look:
    program = compile_sanitized(RACES, folder, *flags)

    def look(number: int) -> list[SanitizerFinding]:
        log = folder / f"log{number}"
        assert run(program, number, GRADER_SANITIZER_LOG=log).returncode == 0
        return read_log(log, program)

    return look


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """What is found in the kernels as they are."""
    return built(tmp_path_factory.mktemp("racing"))


@pytest.fixture(scope="module")
def put_right(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """What is found with every race put right."""
    return built(tmp_path_factory.mktemp("put_right"), "-DFIXED")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_race_is_found_at_both_its_lines(racing: Look, number: int) -> None:
    """And nothing of another kind but the memory that was read too early."""
    marked = {at for at, line in enumerate(RACES.read_text().splitlines(), start=1) if line.endswith(f"// race {number}")}
    found = [one for one in racing(number) if one.severity is not SanitizerSeverity.INFO]
    races = [one for one in found if one.kind is SanitizerKind.RACE]
    severities = {one.severity for one in races}  # lanes of one warp that race are a warning
    assert severities == {SanitizerSeverity.WARNING} if number in MILD else SanitizerSeverity.ERROR in severities
    assert marked
    assert {line for one in races for line in (one.line, one.other_line)} == marked
    assert {one.kind for one in found} <= {SanitizerKind.RACE, SanitizerKind.UNINITIALISED_READ}


@pytest.mark.parametrize("number", NUMBERS)
def test_without_the_race_nothing_is_found(put_right: Look, number: int) -> None:
    """The same kernel with a barrier, an atomic operation or another place."""
    assert [one for one in put_right(number) if one.severity is not SanitizerSeverity.INFO] == []
