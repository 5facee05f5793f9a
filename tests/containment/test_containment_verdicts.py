"""Attacks on the verdict from a box (31 to 33, 41, 62 and 64 of README.md), graded on each isolation.

`tests/exploits` has them too, with many more, but grades once what does not depend on the isolation. The control of each is a grader
without the protection, which accepts it, or a compiler without a box.
"""

import asyncio
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from grader.isolation.settings import BoxSettings
from tests.containment.conftest import HANG_S, SAFE, SESSION, usable
from tests.containment.inventory import traces
from tests.exploits import naive
from tests.exploits.attack_files import attack, honest
from tests.exploits.host_builds import compile_on_host
from tests.exploits.naive import Believed, Guard
from tests.harness.grading import Grading
from tests.harness.service import grade_on

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
# What the careless grader does when it is fooled; it starts the attack's kernel in its own process.
EXITS = dict.fromkeys(("exit_in_call", "says_loaded_and_exits"), Believed.EXIT_CODE)
FORGED = {"forged_verdict_on_stdout_and_stderr": Believed.STDOUT, "forged_verdict_on_every_fd": Believed.PIPE}


@pytest_asyncio.fixture(
    scope="session",
    loop_scope="session",
    params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in SAFE],
)
async def graded_in(request, cage_checks):
    """Grade on this isolation, see that nothing stays, and that the next kernel gets its verdict."""
    await usable(request.param, cage_checks)
    place = Path(tempfile.gettempdir(), f"{SESSION}verdicts{request.param}")
    place.mkdir(mode=0o711)
    settings = BoxSettings(state_id=place.name, runtime_dir=place)
    isolation = SAFE[request.param](settings)
    try:
        async with LocalFleet(isolation=isolation, settings=settings) as fleet:
            grading = Grading(fleet, settings)
            assert (await grade_on(grading, honest().request(request.param))).verdict == "ACCEPTED", "the control: a right kernel"
            own_traces = set(traces(place.name))

            async def grade(kernel):
                graded = await grade_on(grading, kernel.request(request.param))
                async with asyncio.timeout(HANG_S):
                    while set(traces(place.name)) - own_traces:
                        await asyncio.sleep(0.05)
                assert graded.leftovers == ()
                assert (await grade_on(grading, honest().request(request.param))).verdict == "ACCEPTED"
                return graded

            yield grade
    finally:
        await isolation.close()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def on_host(tmp_path_factory):
    """Build a kernel in no box, once."""

    @cache
    def build(name):
        directory = tmp_path_factory.mktemp("built")
        compile_on_host(kernel_of(name), directory)
        return directory / "out" / "artifact"

    return build


def kernel_of(name):
    return attack(name, HONEST_CALLS="3") if name == "honest_then_nothing" else attack(name)


async def refused(graded_in, name):
    """Grade the attack, which gets a verdict that its file names."""
    graded = await graded_in(kernel_of(name))
    assert graded.is_one_of(kernel_of(name).expect)
    return graded


async def test_31_right_first_and_then_hostile_is_not_accepted(graded_in, on_host):
    """The control: a grader that compares the first calls only."""
    await refused(graded_in, "honest_then_nothing")
    artifact = on_host("honest_then_nothing")
    assert naive.grade(artifact, without=(Guard.EVERY_CALL,)).accepted is True
    assert naive.grade(artifact).accepted is False


@pytest.mark.parametrize("name", EXITS)
async def test_32_to_exit_well_is_no_answer(graded_in, on_host, name):
    """The control: a grader that believes the exit code."""
    await refused(graded_in, name)
    assert naive.grade(on_host(name), believed=EXITS[name]).accepted is True


@pytest.mark.parametrize("name", FORGED)
async def test_33_a_forged_verdict_is_nobodys_verdict(graded_in, on_host, name):
    """The control: a grader that reads it there."""
    await refused(graded_in, name)
    assert naive.grade(on_host(name), believed=FORGED[name]).accepted is True


async def test_41_a_build_does_not_get_at_the_reference(graded_in, on_host):
    """The control: on the host its text is in the artifact."""
    graded = await refused(graded_in, "embeds_reference")
    assert "scale_add_fixture reference" not in graded.log + graded.output
    assert b"scale_add_fixture reference" in on_host("embeds_reference").read_bytes()


async def test_62_what_was_expected_is_nowhere_in_the_kernels_memory(graded_in, on_host):
    """Of 62 what needs no GPU. The control: a grader that has the expected answer in the kernel's process before the call."""
    await refused(graded_in, "searches_memory")
    artifact = on_host("searches_memory")
    assert naive.grade(artifact, without=(Guard.REFERENCE_AFTER,)).accepted is True
    assert naive.grade(artifact).accepted is not True


async def test_64_inputs_that_are_changed_during_the_call_change_no_verdict(graded_in, on_host):
    """Of 64 what needs no GPU: it owns the memory that it was given. The control, a race: a grader that compares with the live inputs."""
    await refused(graded_in, "scribbles_in_arena")
    artifact = on_host("scribbles_in_arena")
    careless = (naive.grade(artifact, without=(Guard.PRIVATE_INPUTS, Guard.BAND)) for _ in range(8))
    assert any(graded.accepted for graded in careless)
    assert naive.grade(artifact).accepted is not True
