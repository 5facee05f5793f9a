"""Executes a problem's files as modules of their own, which can import each other and which nobody else can.

Trusted code, but written for another harness: it says "cuda" where it means the device, and it expects to be alone in its process. Its
random numbers are the same from the same key, and as hard to guess as the key.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import linecache
import random
import re
import resource
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch

from sandbox.judge.references import Reference, ReferenceFailed, Tensors, blamed
from sandbox.launch import scaled_mm
from sandbox.protocol import pytree, wire

_CUDA = re.compile(r"cuda(:\d+)?")
_NOTHING_TO_DO = {"torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"}
SCALED_MM = "__scaled_mm__"  # what stands for torch's function on the emulated device
_SPARE_BYTES = 1 << 30  # of addresses: stacks of threads and the like, which are not touched
_MT_BEGIN, _MT_WORDS = 3, 624  # where the Mersenne twister's words lie in the state of torch's CPU generator, in units of 8 bytes
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Modules:
    """The modules of one problem, made when they are first imported. label makes their names in sys.modules its own."""

    def __init__(self, texts: Mapping[str, str], label: str, where: str) -> None:
        self._texts, self._label, self._where = texts, label, where
        self._made: dict[str, types.ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import, SCALED_MM: scaled_mm.emulated}

    def load(self, name: str) -> types.ModuleType:
        """The module of that name; executed at the first time."""
        if name not in self._made:
            module = types.ModuleType(f"{self._label}_{name}")
            vars(module)["__builtins__"] = self._builtins
            # Under a name that nobody else imports: torch.compile and dataclasses look a function's or class's module up there.
            self._made[name] = sys.modules[module.__name__] = module
            path = f"{self._label}/{name}.py"
            text = self._texts[name]
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)  # for tracebacks, and what reads its own source
            exec(compiled(text, path, self._where), vars(module))
        return self._made[name]

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        return name in self._texts

    def file_of(self, module_name: str) -> str | None:
        """The file whose module has this name in sys.modules; None where it is none of these."""
        file = module_name.removeprefix(f"{self._label}_")
        return file if module_name != file and file in self._made else None

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> types.ModuleType:
        if level == 0 and name in self._texts:
            return self.load(name)
        return builtins.__import__(name, globals, locals, fromlist, level)


def executed(spec: wire.ProblemSpec, where: str, texts: Mapping[str, str], start: str, names: Sequence[str]) -> Modules:
    """Execute the text start of a problem. ReferenceFailed where it does not define functions or classes of these names."""
    modules = Modules(texts, f"{spec.format}_{spec.digest[:12]}", where)
    with contained(f"the {start}", where), seeded(spec.digest, where):
        module = modules.load(start)
    check_defined(module, f"the {start}", names)
    return modules


def check_defined(module: types.ModuleType, subject: str, names: Sequence[str]) -> None:
    """Raise ReferenceFailed where a module does not define functions or classes of these names."""
    if missing := [name for name in names if not callable(getattr(module, name, None))]:
        raise ReferenceFailed(f"{subject} defines no {missing[0]!r}; define it at the top level")


def with_own_code(function: _Function) -> _Function:
    """Give a function a code object of its own: what torch.compile makes is kept with that, and the rest would share it."""
    function.__code__ = function.__code__.replace()
    return function


def flatten(value: object, subject: str, **how: Any) -> tuple[Tensors, list[Any]]:
    """Take a nest apart, as `pytree.flatten` does, into tensors and nodes. ReferenceFailed where it can't be sent to a kernel."""
    try:
        tensors, text = pytree.flatten(value, torch.is_tensor, **how)
    except pytree.NestInvalid as invalid:
        raise ReferenceFailed(f"{subject} can't be sent to a kernel: {invalid}") from invalid
    return tensors, json.loads(text)


def as_tensors(result: object, subject: str) -> Tensors:
    """Return the tensors that a function of a problem returned. ReferenceFailed where it returned anything else."""
    results: list[Any] = list(result) if isinstance(result, (tuple, list)) else [result]
    for item in results:
        if not isinstance(item, torch.Tensor):
            raise ReferenceFailed(f"{subject} returned a {type(item).__name__}; return a tensor, or a tuple of tensors")
    return results


def made_at(where: str, make: Callable[[], Any], action: str) -> Any:
    """Let tensors be made on the device, which is much faster; a file that mixes those with others of its own has them made on the CPU."""
    with blamed(action):
        try:
            with torch.device(where):
                return make()
        except (torch.OutOfMemoryError, torch.AcceleratorError):
            raise
        except RuntimeError:
            if where == "cpu":
                raise
        return make()


def compiled(text: str, path: str, where: str) -> types.CodeType:
    """A problem's file, ready to be executed for the device that torch calls where: on the CPU, "cuda" and `.cuda()` mean the CPU."""
    tree = ast.parse(text, path)
    if where == "cpu":
        _ReferenceOnCpu().visit(tree)
        ast.fix_missing_locations(tree)
    return compile(tree, path, "exec", dont_inherit=True)


class _ReferenceOnCpu(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and _CUDA.fullmatch(node.value):
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "is_cuda" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(True), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=inner, attr="cuda"):
                return ast.copy_location(ast.Call(ast.Attribute(inner, "cpu", ast.Load()), [], []), node)
            case ast.Attribute() as function if ast.unparse(function) in _NOTHING_TO_DO:
                return ast.copy_location(ast.Constant(None), node)
            case ast.Attribute() as function if ast.unparse(function) == "torch._scaled_mm":
                return ast.copy_location(ast.Call(ast.Name(SCALED_MM, ast.Load()), node.args, node.keywords), node)
        return node


# What a problem's code may change in torch for all that comes after it: how it is read, and how it is written.
_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (torch.get_deterministic_debug_mode, lambda mode: torch.use_deterministic_algorithms(mode > 0, warn_only=mode == 1)),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *((partial(getattr, of, name), partial(setattr, of, name)) for of, name in (
        (torch.utils.deterministic, "fill_uninitialized_memory"),
        *((torch.backends.cudnn, name) for name in ("allow_tf32", "deterministic", "benchmark")),
    )),
)  # fmt: skip


@contextmanager
def contained(action: str, where: str) -> Iterator[None]:
    """Around a call of a problem's code: torch's switches are put back, memory is bounded, and what it raises is the problem's fault."""
    before = [read() for read, _ in _SWITCHES]
    try:
        with _bounded_memory(where), torch.no_grad():
            yield
    except (torch.OutOfMemoryError, torch.AcceleratorError, ReferenceFailed):
        raise
    except (MemoryError, Exception) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise ReferenceFailed(f"{action} raised {type(error).__name__}: {text}") from error
    finally:
        for (read, write), value in zip(_SWITCHES, before, strict=True):
            if read() != value:
                write(value)


@contextmanager
def _bounded_memory(where: str) -> Iterator[None]:
    """On the CPU an allocation of what is not there fails at once, instead of the process when it is touched."""
    if where != "cpu":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    free = next(int(line.split()[1]) * 1024 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    bound = min([mapped + free + _SPARE_BYTES, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def in_double(reference: Reference, inputs: Tensors) -> Tensors:
    """Return the outputs in double precision. Tensors that a problem's code makes itself are in that, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return reference([tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs])
    finally:
        torch.set_default_dtype(before)


@contextmanager
def seeded(key: str, where: str = "cpu") -> Iterator[None]:
    """Seed torch's generators, Python's and numpy's from a key; they are as they were when the context is left.

    where: the device whose generator is seeded next to the CPU's. A seed would leave 32 bits of the key to torch's CPU generator, which
    can be searched; so its whole state is made from the key.
    """
    python, legacy = random.getstate(), numpy.random.get_state()
    devices = [torch.device(where).index or 0] if where.startswith("cuda") else []
    digest = hashlib.sha256(key.encode()).digest()
    words = numpy.random.Generator(numpy.random.Philox(int.from_bytes(digest, "little"))).integers(0, 2**32, _MT_WORDS, dtype=numpy.int64)
    with torch.random.fork_rng(devices=devices):
        try:
            torch.manual_seed(int.from_bytes(digest[:8], "little"))
            state = torch.get_rng_state()
            state.view(torch.int64)[_MT_BEGIN : _MT_BEGIN + _MT_WORDS] = torch.from_numpy(words)
            torch.set_rng_state(state)
            random.seed(digest)
            numpy.random.seed(list(words[:8]))
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(legacy)
