"""`python -m tools.walk` follows the calls of the source, in its order, and counts files and returns."""

from pathlib import Path

from tools import walk

FILES = {
    "__init__": "",
    "start": """
        from grader.steps import Clock, Port, first as begin, second
        from grader import shapes
        def start(port: Port, clock: Clock):
            begin()
            later = second
            with clock.opened() as shape:
                map(third, [shape.area])
            port.call()
            later()
        def third(): shapes.shape()
        """,
    "steps": """
        from collections.abc import Iterator
        from typing import Protocol
        from grader.shapes import Shape
        class Port(Protocol):
            def call(self) -> None:
                "Call."
        class Clock:
            def __init__(self, shape: Shape):
                self.shape = shape
            def opened(self) -> Iterator[Shape]:
                yield self.shape.same()
        def first(): return first()
        def second(): first()
        """,
    "shapes": """
        class Base:
            def same(self): return self
        class Shape(Base):
            @property
            def area(self): return 0
        def shape(): return Shape()
        """,
}


def test_a_walk_follows_calls_in_the_order_of_the_source(tmp_path):
    """Through imports, annotations, base classes, properties and functions that are passed on; not through a protocol."""
    (tmp_path / "grader").mkdir()
    for name, text in FILES.items():
        (tmp_path / "grader" / f"{name}.py").write_text("\n".join(line[8:] for line in text.split("\n")))
    walker = walk.Walk(tmp_path)
    walker.enter("grader.start.start")
    names = "start.start steps.first steps.Clock.opened shapes.Base.same start.third shapes.shape shapes.Shape.area steps.second"
    assert [*walker.entered] == [f"grader.{name}" for name in names.split()]


def test_the_walks_of_grade_and_of_judge_are_counted(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["walk"])
    monkeypatch.chdir(Path(__file__).parents[2])
    walk.main()
    grade, judge = (block.splitlines() for block in capsys.readouterr().out.strip().split("\n\n"))
    for first, lines in (("grader/grading/pipeline.py", grade), ("sandbox/judge/lane.py", judge)):
        files = [line.split()[0] for line in lines[:-1]]
        assert files[0] == first
        assert f" {len({*files})} files, {len(files) - len({*files})} returns" in lines[-1]
