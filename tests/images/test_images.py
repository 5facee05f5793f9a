"""Both targets of the Dockerfile are built, and kernels are graded in boxes of `image:grader-box`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader.isolation.docker import DockerIsolation
from grader.isolation.settings import BoxSettings
from tests.e2e.test_examples import EXAMPLES, STORY, graded
from tests.images import image_builds
from tests.requirements import absent

KERNELS = [*(f"tril_matmul/{name}.cu" for name in sorted(STORY)), "vector_add/triton_blocks.py", "vector_add/numba_grid_stride.py"]
BOX, SERVER = "grader-box:tested", "grader-server:tested"
# The trusted half of the code, and what only the server needs.
NOT_IN_A_BOX = "import importlib.util as u; print([n for n in ('sandbox.judge', 'grader', 'grpc', 'sqlalchemy') if u.find_spec(n)])"


@pytest.fixture
def builder():
    """An engine that builds, and Debian's packages to build from; not having them is a failure where they are required."""
    missing = [name for name in ("docker", "debootstrap") if shutil.which(name) is None]
    if not missing and subprocess.run(["docker", "version"], check=False, capture_output=True, timeout=300).returncode != 0:
        missing = ["an engine that answers"]
    if os.geteuid() != 0:
        missing.append("root, for debootstrap")
    if missing:
        absent("images", f"images are not built here: needs {', '.join(missing)}")
    image_builds.import_base()


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.timeout(1800)
async def test_the_images_build_and_boxes_of_one_grade(builder, tmp_path):
    """The six, a Triton and a Numba kernel get their verdicts. A changed source installs no package again; a changed list of packages,
    the control, does."""
    with image_builds.served(image_builds.wheels(image_builds.cache_directory())) as links:
        context = image_builds.copy_of_the_sources(tmp_path)
        image_builds.build(context, "box", BOX, links)
        image_builds.build(context, "server", SERVER, links)
        assert installs(image_builds.build(context, "server", SERVER, links)) == 0
        with (context / "grader" / "__init__.py").open("a") as source:
            source.write("# changed\n")
        assert installs(image_builds.build(context, "server", SERVER, links)) == 1  # the package itself
    in_box = image_builds.run("docker", "run", "--rm", "--network", "none", "--workdir", "/grader/lib", BOX, "python3", "-c", NOT_IN_A_BOX)
    assert in_box.strip() == "[]"
    assert "--box-root" in image_builds.run("docker", "run", "--rm", "--network", "none", SERVER, "--help")
    await grade_in_boxes_of(BOX)


def installs(printed: str) -> int:
    """How often pip ran in a build: a step that was taken from the cache prints nothing of pip's."""
    return printed.count("Successfully installed")


async def grade_in_boxes_of(image: str) -> None:
    """Every kernel gets the verdict of its first line."""
    with tempfile.TemporaryDirectory(prefix="grader-image-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o711)
        settings = BoxSettings(state_id=f"image{os.getpid()}", runtime_dir=Path(place), box_root=f"image:{image}")
        isolation = DockerIsolation(settings)
        usability = await isolation.check()
        assert usability.usable, usability.detail
        async with LocalFleet(isolation=isolation, settings=settings) as fleet:
            for name in KERNELS:
                text = (EXAMPLES / name).read_text("utf-8")
                report, _ = await graded(fleet, name.split("/")[0], text, "kernel" + Path(name).suffix)
                wanted = text.splitlines()[0].split("expect:")[1].split()
                assert report.verdict is not None and report.verdict.name == wanted[0], (name, report)
        await isolation.close()
