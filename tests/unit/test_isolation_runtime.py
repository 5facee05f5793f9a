"""What a server leaves behind of its boxes' directories."""

from pathlib import Path

from grader.isolation.directories import box_output, leave_runtime, run_directory, sweep_runtime
from grader.isolation.settings import BoxSettings


def test_a_server_that_ends_leaves_no_directory(tmp_path: Path) -> None:
    settings = BoxSettings(state_id="a", runtime_dir=tmp_path / "runtime")
    with box_output(settings, limit_bytes=1 << 20) as place:
        (place / "artifact").write_bytes(b"1")
    (settings.runtime_dir / "etc").mkdir()
    (settings.runtime_dir / "etc" / "passwd").write_text("")
    leave_runtime(settings)
    assert not settings.runtime_dir.exists()
    leave_runtime(settings)


def test_what_could_not_be_cleared_stays_for_the_next_server(tmp_path: Path) -> None:
    first, second = (BoxSettings(state_id="a", runtime_dir=tmp_path / "runtime") for _ in range(2))
    stray = run_directory(first) / "link-1"
    stray.mkdir()
    leave_runtime(first)
    assert stray.exists()
    run_directory(second)
    leave_runtime(second)
    assert stray.exists() and not (second.runtime_dir / f"run-{second.run_id}").exists()
    sweep_runtime(second)
    leave_runtime(second)
    assert not second.runtime_dir.exists()
