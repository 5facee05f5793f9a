"""Problems and kernels made in code: families of one operation at several sizes, about 5 us to 5 ms on an H200."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.model import Problem
from sandbox.protocol import wire

KERNELS = Path(__file__).parent / "kernels" / "families"
EXAMPLES = Path(__file__).parents[2] / "kernels_examples" / "vector_add"
FLOAT_BYTES = 4
Axes = dict[str, int]
Count = Callable[[Axes], int]
MATRIX = ("n", "n")
ROWS = ("rows", "cols")
TIGHT = wire.Tolerance(atol=1e-4, rtol=1e-4, budget_factor=None)
# Sums of thousands of products in another order; whether a kernel is right to the last digit is not what these tables are about.
SUMS = wire.Tolerance(atol=0.1, rtol=1e-3, budget_factor=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A size of a family. about_us: what it takes on an H200; tiny: its stand-in where there is no GPU."""

    name: str
    axes: Axes
    about_us: float
    tiny: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kernel and its problem at several sizes."""

    name: str
    language: str
    inputs: Mapping[str, tuple[str, ...]]
    output: tuple[str, ...]
    reference: str
    sizes: tuple[Size, ...]
    flops: Count
    tolerance: wire.Tolerance = TIGHT
    directory: Path = KERNELS

    @property
    def axes(self) -> tuple[str, ...]:
        """In the order in which a raw kernel takes them."""
        return tuple(self.sizes[0].axes)

    @property
    def source(self) -> str:
        """The kernel."""
        return (self.directory / f"{self.name}.cu").read_text("utf-8")

    def axes_of(self, size: Size, tiny: bool) -> Axes:
        """The axes of a size, here."""
        return size.tiny if tiny else size.axes

    def problem(self, tiny: bool = False) -> Problem:
        """The problem, one workload for each size."""
        workloads = tuple(
            wire.Workload(
                workload_id=size.name,
                axes=axes,
                moved_bytes=FLOAT_BYTES * sum(math.prod(axes[name] for name in shape) for shape in (*self.inputs.values(), self.output)),
                flops=self.flops(axes),
            )
            for size in self.sizes
            for axes in (self.axes_of(size, tiny),)
        )
        spec = wire.ProblemSpec(
            problem_id=f"gpu_{self.name}",
            format="native",
            entry="solve",
            inputs=tuple(wire.TensorSpec(name=name, dtype="float32", shape=shape) for name, shape in self.inputs.items()),
            outputs=(wire.TensorSpec(name="out", dtype="float32", shape=self.output),),
            workloads=workloads,
            tolerance=self.tolerance,
            reference=f"import torch\n\n\ndef reference({', '.join(self.inputs)}):\n    return {self.reference}\n",
            axes=self.axes,
            trial_count=2,
            trial_s=10.0,
        )
        return as_problem(spec)


def as_problem(spec: wire.ProblemSpec) -> Problem:
    """A problem of that specification, with its digest."""
    plain = {**asdict(spec), "digest": ""}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()
    attrs = {**{name: getattr(spec, name) for name in plain}, "digest": digest}
    return Problem(problem_id=spec.problem_id, title=spec.problem_id, languages=("cuda", "torch_extension"), spec=wire.ProblemSpec(**attrs))


def _vector(log2: int, about_us: float) -> Size:
    return Size(name=f"n{1 << log2}", axes={"n": 1 << log2}, about_us=about_us, tiny={"n": 1 << 10 + log2 % 3})


def _square(n: int, about_us: float) -> Size:
    return Size(name=f"n{n}", axes={"n": n}, about_us=about_us, tiny={"n": 32 + n // 128})


def _rows(rows: int, cols: int, about_us: float) -> Size:
    return Size(name=f"{rows}x{cols}", axes={"rows": rows, "cols": cols}, about_us=about_us, tiny={"rows": 5, "cols": cols // 32})


def _cube(axes: Axes) -> int:
    return 2 * axes["n"] ** 3


def _area(axes: Axes) -> int:
    return axes["rows"] * axes["cols"]


def _matmul(name: str, sizes: tuple[Size, ...], *, language: str = "cuda", reference: str = "a @ b") -> Family:
    inputs = {"a": MATRIX, "b": MATRIX}
    return Family(name=name, language=language, inputs=inputs, output=MATRIX, reference=reference, sizes=sizes, flops=_cube, tolerance=SUMS)


def _add(name: str, language: str, sizes: tuple[Size, ...], directory: Path = KERNELS) -> Family:
    inputs, flops = {"a": ("n",), "b": ("n",)}, lambda axes: axes["n"]
    return Family(
        name=name, language=language, inputs=inputs, output=("n",), reference="a + b", sizes=sizes, flops=flops, directory=directory
    )


FAMILIES = (
    _add("vector_add", "cuda", (_vector(18, 5), _vector(22, 18), _vector(24, 53), _vector(26, 190))),
    Family(
        name="row_softmax",
        language="cuda",
        inputs={"x": ROWS},
        output=ROWS,
        reference="torch.softmax(x, dim=-1)",
        sizes=(_rows(4096, 1024, 14), _rows(32768, 2048, 200)),
        flops=lambda axes: 4 * _area(axes),
    ),
    Family(
        name="transpose",
        language="cuda",
        inputs={"x": MATRIX},
        output=MATRIX,
        reference="x.t().contiguous()",
        sizes=(_square(2048, 14), _square(8192, 180)),
        flops=lambda axes: 0,
    ),
    Family(
        name="row_sum",
        language="cuda",
        inputs={"x": ROWS},
        output=("rows",),
        reference="x.sum(dim=-1)",
        sizes=(_rows(8192, 8192, 75),),
        flops=_area,
        tolerance=SUMS,
    ),
    _matmul("matmul_naive", (_square(512, 80), _square(2304, 4500))),
    _matmul("matmul_tiled", (_square(1024, 250), _square(2560, 2000))),
    _add("two_streams", "cuda", (_vector(20, 10), _vector(26, 240)), EXAMPLES),
    _add("torch_add", "torch_extension", (_vector(20, 8), _vector(25, 100))),
    Family(
        name="torch_layer_norm",
        language="torch_extension",
        inputs={"x": ROWS},
        output=ROWS,
        reference="torch.nn.functional.layer_norm(x, x.shape[-1:])",
        sizes=(_rows(8192, 4096, 80),),
        flops=lambda axes: 5 * _area(axes),
    ),
    Family(
        name="torch_gelu",
        language="torch_extension",
        inputs={"x": ("n",)},
        output=("n",),
        reference="torch.nn.functional.gelu(x)",
        sizes=(_vector(26, 140),),
        flops=lambda axes: 4 * axes["n"],
    ),
    _matmul("torch_mm", (_square(1024, 60), _square(4096, 2700)), language="torch_extension", reference="torch.mm(a, b)"),
)


def _one_row(log2: int, about_us: float) -> Size:
    cols = 1 << log2
    return Size(name=f"add_n{cols}", axes={"rows": 1, "cols": cols}, about_us=about_us, tiny={"rows": 1, "cols": cols >> log2 // 2})


def _product(n: int, about_us: float) -> Size:
    return Size(name=f"mm_n{n}", axes={"rows": n, "cols": n}, about_us=about_us, tiny={"rows": n // 64, "cols": n // 64})


# One row is added, a square is multiplied: one problem with memory-bound and compute-bound sizes, so that a box is started once for all.
SAME = Family(
    name="same_op",
    language="torch_extension",
    inputs={"a": ROWS, "b": ROWS},
    output=ROWS,
    reference="torch.add(a, b) if a.size(0) == 1 else torch.mm(a, b)",
    sizes=(_one_row(22, 20), _one_row(25, 100), _product(2304, 500), _product(4096, 3000)),
    flops=lambda axes: _area(axes) if axes["rows"] == 1 else 2 * axes["rows"] ** 2 * axes["cols"],
    tolerance=SUMS,
)
