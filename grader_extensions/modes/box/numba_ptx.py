"""Compiles Numba kernels to PTX where there is no GPU, to see what they are made of, and why some on float32 compute in float64.

Nothing that it makes is ever run. By Numba's own way where the CUDA toolkit's NVVM is installed, else by the NVPTX backend of the LLVM that
Numba brings: that counts the same conversions, though it may unroll a loop otherwise. ptxas is the toolkit's or Triton's. Reasons for
float64 come from the types that Numba inferred: a plain `0.0` is a float64, and an int64 makes one of a float32. A line is only named where
the PTX has arithmetic in float64 for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandbox.compilers import ptxas
from sandbox.protocol.wire import KernelUse

PTXAS_S = 20.0
REMARK_LIMIT = 4
TRIPLE = "nvptx64-nvidia-cuda"
NVIDIA_FILES = "backends/nvidia"  # in Triton's package
_NARROW = frozenset(("float32", "float16"))
_INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"))
_ARITHMETIC = frozenset(("binop", "inplace_binop"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbaKernel:
    """A kernel for one set of argument types. entry: its mangled name in the PTX; types: what Numba inferred, its `TypeAnnotation`;
    by_nvvm: whether the toolkit's compiler made the PTX, as on a GPU."""

    name: str
    entry: str
    ptx: str
    types: Any
    by_nvvm: bool


def compiled(dispatcher: Any, argument_types: Sequence[Any], architecture: int) -> NumbaKernel:
    """Compile a `CUDADispatcher` for types. architecture: such as 90. Whatever Numba objects to in the kernel is raised."""
    compiler: Any = importlib.import_module("numba.cuda.compiler")
    nvvm: Any = importlib.import_module("numba.cuda.cudadrv.nvvm")
    options = dispatcher.targetoptions
    fast, level = bool(options.get("fastmath")), 3 if options.get("opt", True) else 0
    capability = divmod(architecture, 10)
    result = compiler.compile_cuda(
        dispatcher.py_func,
        importlib.import_module("numba.cuda").types.void,
        tuple(argument_types),
        lineinfo=True,
        fastmath=fast,
        nvvm_options={"fastmath": fast, "opt": level},
        cc=capability,
    )
    library, entry = result.library, result.fndesc.llvm_func_name
    kernel = library.get_function(entry)
    library._entry_name = entry
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, options.get("launch_bounds"))
    try:
        ptx, by_nvvm = "\n".join(library.get_asm_strs(cc=capability)), True
    except (ImportError, RuntimeError, OSError, AttributeError):  # no NVVM, or no NVRTC, which says what NVVM can
        ptx, by_nvvm = _by_llvm(library.llvm_strs, entry, f"sm_{capability[0]}{capability[1]}"), False
    return NumbaKernel(name=dispatcher.py_func.__name__, entry=entry, ptx=ptx, types=result.type_annotation, by_nvvm=by_nvvm)


def use(kernel: NumbaKernel, architecture: int) -> KernelUse:
    """Return the kernel's use of the device; registers are 0 where there is no ptxas."""
    doubles = len(ptxas.float64_instructions([kernel.ptx]).get(kernel.entry, ()))
    described = [kernel_use for kernel_use in ptxas.kernels(assembled(kernel.ptx, architecture)[0]) if kernel_use.registers]
    resources = described[0] if len(described) == 1 else KernelUse(name="", registers=0)
    return replace(resources, name=kernel.name[: ptxas.NAME_LIMIT_CHARS], double_instruction_count=doubles)


def _by_llvm(texts: Sequence[str], entry: str, processor: str) -> str:
    binding: Any = importlib.import_module("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module, *linked = (binding.parse_assembly(text) for text in texts)
    for part in linked:
        module.link_in(part)
    device_library = nvidia_file("lib/libdevice.10.bc")
    if device_library is not None and any("__nv_" in text for text in texts):
        # It is one module for all; what is not called is left out because nobody else can.
        library = binding.parse_bitcode(device_library.read_bytes())
        library.triple, library.data_layout = module.triple, module.data_layout
        module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=3)
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    return str(machine.emit_assembly(module))


def assembled(ptx: str, architecture: int) -> tuple[str, bytes | None]:
    """Have ptxas assemble a text, for the architecture that it names: the toolkit's, or Triton's where that is too old for it.

    Returns its output and the cubin; nothing of both where there is no ptxas.
    """
    log, cubin = "", None
    for program in (shutil.which("ptxas"), nvidia_file("bin/ptxas"), nvidia_file("bin/ptxas-blackwell")):
        if program is not None and cubin is None:
            log, cubin = _assembled_by(str(program), ptx, architecture)
    return log, cubin


def _assembled_by(program: str, ptx: str, architecture: int) -> tuple[str, bytes | None]:
    target = re.search(r"^\.target (sm_\w+)", ptx, re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="ptxas-") as place:
        source, cubin = Path(place) / "kernel.ptx", Path(place) / "kernel.cubin"
        source.write_text(ptx, "utf-8")
        command = [program, "-v", f"-arch={target[1] if target else f'sm_{architecture}'}", str(source), "-o", str(cubin)]
        try:
            process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=PTXAS_S)
        except (OSError, subprocess.TimeoutExpired):
            return "", None
        log = (process.stderr + process.stdout).replace(f"{Path(program).name} ", "ptxas ")
        return log, cubin.read_bytes() if process.returncode == 0 and cubin.exists() else None


def nvidia_file(path: str) -> Path | None:
    """A file that Triton's wheel brings."""
    spec = importlib.util.find_spec("triton")
    file = Path(spec.origin).parent / NVIDIA_FILES / path if spec is not None and spec.origin is not None else None
    return file if file is not None and file.exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where an operand that makes a float64 comes from. line: 0 where its own says little; a literal's explains best."""

    source: str
    type: str
    remedy: str
    line: int


def numba_float64_remarks(kernel: NumbaKernel, path: str) -> tuple[str, ...]:
    """Sentences, each with the line of the literal that is to blame, or of what is computed with an argument or global. path: the file's,
    as it was submitted."""
    places = ptxas.float64_instructions([kernel.ptx]).get(kernel.entry, [])
    lines = {line for place in places for line in place}
    arguments = (value for name, value in kernel.types.typemap.items() if name.startswith("arg."))
    meant = any(str(getattr(argument, "dtype", "")) in ("float64", "complex128") for argument in arguments)
    if not places or meant:
        return ()
    sentences: dict[str, None] = {}
    for line, origin, accumulates in _promotions(kernel.types):
        if line in lines:
            does = "accumulates" if accumulates else "computes"
            why = f"{origin.source} is an {origin.type}, and with float32 that makes a float64"
            why = f"{origin.source} is a float64" if origin.type == "float64" else why
            sentences[f"{path}:{origin.line or line}: {does} in float64: {why}; write `{origin.remedy}`"] = None
    return tuple(sentences)[:REMARK_LIMIT]


def _promotions(types: Any) -> Iterator[tuple[int, _Origin, bool]]:
    """Each operation on a float32 that makes a float64: its line, what the other operand comes from, and whether it is a sum's own next."""
    definitions: dict[str, list[Any]] = {}
    assignments = [assignment for block in types.blocks.values() for assignment in block.body if type(assignment).__name__ == "Assign"]
    for assignment in assignments:
        definitions.setdefault(assignment.target.name, []).append(assignment)
    for assignment in assignments:
        if getattr(assignment.value, "op", "") not in _ARITHMETIC or _type(types, assignment.target) != "float64":
            continue
        operands = (assignment.value.lhs, assignment.value.rhs)
        wide = [operand for operand in operands if _type(types, operand) not in _NARROW]
        if len(wide) != 1:
            continue
        origins, passed = _origins(wide[0], definitions, types)
        if origins:
            yield assignment.loc.line, min(origins, key=lambda origin: (not origin.line, origin.line)), assignment.target.name in passed


def _origins(variable: Any, definitions: dict[str, list[Any]], types: Any) -> tuple[list[_Origin], set[str]]:
    origins: list[_Origin] = []
    waiting, passed = [variable.name], set[str]()
    while waiting:
        name = waiting.pop()
        if name in passed:
            continue
        passed.add(name)
        for assignment in definitions.get(name, ()):
            origin = _origin(assignment, types)
            if origin is not None:
                origins.append(origin)
            elif type(assignment.value).__name__ == "Var":
                waiting.append(assignment.value.name)
            elif getattr(assignment.value, "op", "") in ("cast", "phi"):
                waiting += [operand.name for operand in assignment.value.list_vars()]
    return origins, passed


def _origin(assignment: Any, types: Any) -> _Origin | None:
    value, kind = assignment.value, _type(types, assignment.target)
    noun = {"Const": "literal", "Arg": "argument", "Global": "global", "FreeVar": "global"}.get(type(value).__name__)
    if noun is None or (kind != "float64" and kind not in _INTEGERS):
        return None
    text, line = (repr(value.value), assignment.loc.line) if noun == "literal" else (value.name, 0)
    return _Origin(source=f"the {noun} `{text}`", type=kind, remedy=f"np.float32({text})", line=line)


def _type(types: Any, variable: Any) -> str:
    """Numba's name of a variable's type; of a literal, that of its value."""
    inferred = types.typemap.get(getattr(variable, "name", ""))
    return str(getattr(inferred, "literal_type", inferred))
