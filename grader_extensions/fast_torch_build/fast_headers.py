"""Prepares the light headers for one job: what stands for torch's own, with just the operators that the sources name.

Torch's classes stay torch's; what is left out is the text that no kernel reads. The headers that torch generates have a regular shape,
and pieces of them are taken over word for word, so that a job's code means the same under both; where the shape is another, or a name is
not carried, the build reports it or fails, and torch's own headers are used.

The casters of torch's own types and the exceptions that it translates are exported by its libraries; their declarations are taken over.

Most errors under light headers may be their fault. Not so where the first error is a name that torch's headers do not contain at all, a
slip in the grammar, a tensor-core fragment that CUDA does not have, a header that no directory has (torch's own are searched, too), or
something that the sources themselves define twice, or define and call with too few arguments: what stands before it was understood, and
the same names mean the same with both. Later errors may be consequences of the first and prove nothing. A source that uses a macro which
only torch's own headers have proves nothing either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from grader_extensions.emulated_cuda import gcc
from grader_extensions.emulated_cuda.gcc import MACROS_FILE, NAMES_FILE, precompiled_names
from sandbox.compilers import headers
from sandbox.compilers.cuda_tokens import condition_of, defined_macros, descendants, leaves, node_text, parse, syntax_tree
from sandbox.compilers.headers import LIGHT, Headers
from sandbox.protocol.elf import undefined_names

WORD = re.compile(r"[A-Za-z_]\w*")
# A line of g++, and one of nvcc's passes.
_ERROR = re.compile(r"^(?P<path>[^:(\n]+)(?::\d+:\d+|\(\d+\)): (?P<fatal>fatal )?error: (?P<message>.*)$", re.MULTILINE)
_QUOTED = r"[‘'\"](\w+)[’'\"]"
_UNKNOWN = (
    rf"{_QUOTED} was not declared in this scope",
    rf"{_QUOTED} is not a member of ",
    rf"{_QUOTED} has not been declared",
    rf"{_QUOTED} does not name a type",
    rf"identifier {_QUOTED} is undefined",
    rf'namespace "[\w:]+" has no member {_QUOTED}',
)
# What makes a Python module or an operator; and what makes names that do not stand in the source.
_MAKES_ENTRY = re.compile(
    r"PYBIND11_|PyInit_|PyModule|TORCH_LIBRARY(?!_IMPL\b)|TORCH_EXTENSION_NAME|RegisterOperators|\bLibrary\b|##|%:%:|\basm\b|__asm"
)
# A tensor-core fragment of a type or shape that CUDA does not have: `mma.h` declares them, whichever headers of torch are there.
_NO_FRAGMENT = re.compile(
    r"[‘'\"](?:const )?nvcuda::wmma::fragment<[^;]*\bincomplete type\b|\bincomplete type [‘'\"](?:const )?nvcuda::wmma::fragment<"
)
_GRAMMAR = ("expected ", "stray ", "missing terminating ", "unterminated ")
# What g++ expects, too, where it knows a namespace and not the name in it.
_NAME_EXPECTED = re.compile(r"expected (?:class-name|type-specifier|nested-name-specifier|template-name)\b")
_NO_FILE = re.compile(r"\S+: No such file or directory")
_TWO_MEANINGS = re.compile(r"redefinition of |conflicting declaration |redeclared as different|conflicts with a previous declaration")
_DEFINED_BEFORE = re.compile(r"has already been defined \(previous definition at line \d+\)")  # nvcc's, of the same file
# In g++'s notes on an error: where the other meaning of a name is declared, and what there is to call.
_DECLARED_AT = re.compile(r"^(?P<path>[^:(\n]+):\d+:\d+: note: .*previous", re.MULTILINE)
_CALL = re.compile(r"(too (?:few|many) arguments to|no matching) function (?:for call to )?[‘'](?:[^(<]*[\s:*&])?(?P<name>\w+)[<(]")
_CANDIDATE, _OTHER_COUNT = "note: candidate: ", "note:   candidate expects "
# Functions of the C library by which all headers of torch begin; of the others some come with the light ones only.
_MATH = re.compile(r"/usr/include/\S+/(?:cmath|bits/mathcalls\.h|bits/std_abs\.h)")
_LINKED_TWICE = re.compile(
    r"^(?:\S*\bld: )?(?P<second>[^:\n]+):\([^)]*\): multiple definition of .(?P<name>\w+).*; (?P<first>[^:\n]+):.*first defined here",
    re.MULTILINE,
)
_NO_MEMBER = (rf"has no member named {_QUOTED}", rf'class ".*" has no member {_QUOTED}')
TENSOR = "struct TORCH_PYTHON_API type_caster<at::Tensor> {"
CASTERS = (
    TENSOR,
    "struct TORCH_PYTHON_API type_caster<at::IntArrayRef> {",
    "struct TORCH_PYTHON_API type_caster<c10::Scalar> {",
    "struct type_caster<at::Device> {",
    "struct type_caster<at::ScalarType> {",
)
PYTHON_ERROR = "struct python_error : public std::exception {"
TRANSLATE = "TORCH_PYTHON_API void translate_exception_to_python("
EXCEPTIONS = (
    "struct PyTorchError : public std::exception {",
    "struct TypeError : public PyTorchError {",
    "struct AttributeError : public PyTorchError {",
)
# What a signature calls an integer and a float, as argument and as result: changes between versions of pybind11 3, which alone is followed.
NUMBERS = re.compile(r'io_name<std::is_integral<T>::value>\(\s*"([^"@]*)",\s*"([^"@]*)",\s*"([^"@]*)",\s*"([^"@]*)"\)')
INCLUDES = """\
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Export.h>
"""
NATIVE = Path(__file__).resolve().parent / "native"
_DEFINITION = re.compile(r"^(?:static )?inline .*?\b(Tensor::)?(\w+)\([\s\S]*?^\}$", re.MULTILINE)  # at the left margin
_COMMENT = re.compile(r"^ *//.*$", re.MULTILINE)
# Methods that torch's own inline code calls: the operators of Tensor and `ATen/TensorOperators.h`.
CALLED_BY_TORCH = """
    add add_ sub sub_ mul mul_ div div_ remainder remainder_ bitwise_and bitwise_and_ bitwise_or bitwise_or_ bitwise_xor bitwise_xor_
    bitwise_not neg lt le gt ge eq ne fill_ copy_ select to item _conj conj_physical is_leaf requires_grad_
"""
# Macros that a source may test: the same with both headers, whatever they are. One that it tests and neither it nor this list
# names could be torch's, so such a source gets torch's own headers.
SAME_WITH_BOTH = """
    NDEBUG USE_ROCM CUDA_VERSION CUDART_VERSION TORCH_EXTENSION_NAME TORCH_VERSION_MAJOR TORCH_VERSION_MINOR TORCH_VERSION_PATCH
    WIN32 _WIN32 _MSC_VER DEBUG defined USE_CUDA WITH_CUDA M_PI CUDA_NO_HALF
"""
# Headers that the full ones bring, and the words for which a source needs them; `grader/light.h` has what is always there.
NEEDED_BY = {
    "iostream": "cout cerr clog",
    "sstream": "stringstream ostringstream istringstream",
    "iomanip": "setprecision setw setfill",
    "fstream": "ofstream ifstream",
    "map": "map multimap",
    "set": "set multiset",
    "unordered_set": "unordered_set",
    "queue": "queue priority_queue",
    "deque": "deque",
    "list": "list",
    "stack": "stack",
    "bitset": "bitset",
    "chrono": "chrono",
    "random": "mt19937 mt19937_64 random_device normal_distribution uniform_real_distribution uniform_int_distribution",
    "numeric": "accumulate iota reduce inner_product partial_sum gcd lcm",
    "algorithm": "sort min_element max_element fill transform any_of all_of find_if clamp",
    "thread": "thread this_thread",
    "mutex": "mutex lock_guard unique_lock once_flag call_once",
    "functional": "function bind plus multiplies hash",
    "cmath": "sqrt exp log pow fabs floor ceil tanh isnan isinf",
    "c10/core/DeviceGuard.h": "DeviceGuard OptionalDeviceGuard",
    "ATen/core/Generator.h": "Generator",
    "ATen/OpMathType.h": "opmath_type OpMathType",
    "ATen/AccumulateType.h": "acc_type acc_type_device",
    "ATen/ExpandUtils.h": "expand_inplace expand_outplace expand_size infer_size",
    "ATen/DimVector.h": "DimVector",
    "ATen/NumericUtils.h": "_isnan _isinf",
    "ATen/ceil_div.h": "ceil_div round_up",
    "c10/util/irange.h": "irange",
    "c10/util/Logging.h": "CHECK CHECK_EQ CHECK_NE CHECK_LT CHECK_LE CHECK_GT CHECK_GE CHECK_NOTNULL DCHECK LOG VLOG vec tensor(",
    "ATen/TensorIndexing.h": "indexing TensorIndex",
    "torch/csrc/api/include/torch/detail/TensorDataContainer.h": "tensor(",
    "c10/core/InferenceMode.h": "InferenceMode",
    "ATen/Parallel.h": "parallel_for parallel_reduce get_num_threads set_num_threads",
}
# Headers that torch's own include for others' sake, and the words for which a source needs them after all.
LEFT_OUT_WITHOUT = {
    "ATen/Context.h": "globalContext Context getCUDAHooks hasCUDA hasMPS hasXPU hasMAIA hasCUDART manual_seed NoTF32Guard",
    "ATen/TensorUtils.h": "TensorArg TensorGeometryArg CheckedFrom TORCH_CHECK_TENSOR_ALL",
}
WRAPPERS = frozenset({"wrap_pybind_function", "wrap_pybind_function_no_gil"})
# Handles of CUDA's libraries that torch's context hands out; `native/opaque` only names them.
LIBRARY_WORDS = ("cublas", "cusparse", "cusolver", "cudss", "CUDABlas", "CUDASparse", "CUDASolver", "CUBLAS", "CUSPARSE", "CUSOLVER")


def is_certain(log: str, sources: Mapping[str, str], ready: Path) -> bool:
    """Return whether torch's own headers would reject the sources too; ready: the directory where `precompile` left their names."""
    torch_names, texts = precompiled_names(NAMES_FILE, ready), "\n".join(sources.values())
    first, words = re.search(r"^.*\berror: .*$", log, re.MULTILINE), frozenset(WORD.findall(texts))
    if first is None or not torch_names or not precompiled_names(MACROS_FILE, ready).isdisjoint(words):
        return False
    error = _ERROR.match(first[0])
    if error is None:
        twice = _LINKED_TWICE.search(log)
        named = twice is not None and (twice["name"] in words or twice["name"].startswith("PyInit_"))
        return twice is not None and named and {twice["first"], twice["second"].replace(".cudafe1.cpp", ".cu")} <= sources.keys()
    if error["path"] not in sources:
        return False
    message = error["message"]
    if error["fatal"]:
        return _NO_FILE.match(message) is not None
    if message.startswith(_GRAMMAR) and not _NAME_EXPECTED.match(message):
        return True
    if _NO_FRAGMENT.search(message) or _DEFINED_BEFORE.search(message):
        return True
    notes = log[first.end() :].partition(" error: ")[0]
    before = _DECLARED_AT.search(notes)
    if _TWO_MEANINGS.search(message):
        return before is not None and (before["path"] in sources or _MATH.fullmatch(before["path"]) is not None)
    if (called := _CALL.search(message)) is not None:
        counted = called[1] != "no matching" or 0 < notes.count(_CANDIDATE) == notes.count(_OTHER_COUNT)
        return counted and called["name"] in words and called["name"] not in torch_names
    name, member = _named(_UNKNOWN, message), _named(_NO_MEMBER, message)
    # A class of the source's own may have a member, and another overload may return that.
    if name is None and member is not None and re.search(rf"(?<![.>\w]){member}\b", texts) is None:
        name = member
    return name is not None and name not in torch_names


def makes_no_entry(sources: Mapping[str, str], ready: Path) -> bool:
    """Return whether the sources make neither a Python module nor an operator, with torch's own headers either: they name nothing that
    does, and no macro of those headers only. `TORCH_LIBRARY_IMPL` is the same in both; it adds to an operator that is defined elsewhere."""
    torch_macros, texts = precompiled_names(MACROS_FILE, ready), "\n".join(sources.values())
    return (
        bool(torch_macros)
        and _MAKES_ENTRY.search(texts) is None
        and torch_macros.isdisjoint({*WORD.findall(texts)} - {"TORCH_LIBRARY_IMPL"})
    )


def _named(patterns: tuple[str, ...], message: str) -> str | None:
    return next((match[1] for pattern in patterns if (match := re.search(pattern, message)) is not None), None)


def variable_header(torch_include: Path) -> str | None:
    """The text of `grader/variable.h` for the torch installed there; None where its headers have another shape."""
    casters, exceptions = _text(torch_include / "torch/csrc/utils/pybind.h"), _text(torch_include / "torch/csrc/Exceptions.h")
    error, thrown = _struct(exceptions, PYTHON_ERROR), [_struct(exceptions, start) for start in EXCEPTIONS]
    translate = _piece(exceptions, rf"^{re.escape(TRANSLATE)}[\s\S]*?;$")
    numbers = NUMBERS.search(_text(torch_include / "pybind11/cast.h"))
    # A caster with a body would need more than its declaration.
    if re.search(r"bool load\(handle src, bool.*;$", _struct(casters, TENSOR), re.MULTILINE) is None:
        return None
    if not error or not translate or not all(thrown) or numbers is None:
        return None
    integer, integer_result, real, real_result = numbers.groups()
    names = [f'#define GRADER_INTEGER_NAME "@{integer}@{integer_result}@"', f'#define GRADER_FLOAT_NAME "@{real}@{real_result}@"']
    lines = ["#pragma once", INCLUDES, *names, error, "namespace torch {", translate, *thrown, "}", "namespace pybind11::detail {"]
    lines += [f"template <>\n{caster}" for start in CASTERS if (caster := _struct(casters, start))]
    return "\n".join([*lines, "}", ""])


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _piece(text: str, pattern: str) -> str:
    """The first piece of a header that this matches, without comments; "" where there is none."""
    match = re.search(pattern, text, re.MULTILINE)
    return "" if match is None else _COMMENT.sub("", match[0])


def _struct(text: str, start: str) -> str:
    return _piece(text, rf"^{re.escape(start)}$[\s\S]*?^\}};$")


def tested_macros(code: bytes) -> Iterator[str]:
    """The names in the conditions of `#if`, `#ifdef` and their like."""
    conditions = filter(None, map(condition_of, descendants(syntax_tree(code))))
    return (node_text(leaf) for condition in conditions for leaf in leaves(condition) if leaf.type == "identifier")


def prepare(sources: Mapping[str, str], place: Path, *, emulated: bool) -> Headers | str:
    """Write the job's headers below `place`; a sentence where light headers can't do."""
    try:
        include_dirs = headers.torch_include_dirs()
        torch_include = Path(include_dirs[0])
        codes = [text.encode() for text in sources.values()]
        # A macro that a source tests and that only torch's own headers may define; its own too, unless it is known that torch has none.
        only_torchs = gcc.precompiled_names(gcc.MACROS_FILE)
        defined = {name for code in codes for name in defined_macros(code)} - only_torchs if only_torchs else set()
        tested = {name for code in codes for name in tested_macros(code)}
        macro = next((name for name in sorted(tested - defined - set(SAME_WITH_BOTH.split())) if not name.startswith("__")), None)
        if macro is not None:
            return f"the source asks whether there is a macro {macro}"
        names = frozenset(name for code in codes for name in _names(code))
        body = _text(torch_include / "ATen/core/TensorBody.h")
        methods = _definitions(body, method=True)
        variable = variable_header(torch_include)
        if len(methods) < 100 or variable is None:
            return "this version of torch has headers of another shape"
        always = CALLED_BY_TORCH.split()
        wanted = [name for name in methods if name in names or name in always or name.startswith("__dispatch_")]
        classes = _COMMENT.sub("", _DEFINITION.sub(lambda match: match[0] if match[1] is None else "", body))
        classes = classes.replace("#include <ATen/MethodOperators.h>", "#include <ATen/core/ATen_fwd.h>")
        _write(place / "ATen/core/TensorBody.h", classes)
        _write(place / "grader/variable.h", variable)
        _write(place / "grader/wrapped.h", _wrapped_header(torch_include, names))
        for header, needed_by in LEFT_OUT_WITHOUT.items():
            if names.isdisjoint(needed_by.split()):
                _write(place / header, "#pragma once\n")
        _write(place / "grader/named.h", _named_header(torch_include, names, {name: methods[name] for name in wanted}))
        trimmed = tuple(method for method in methods if method not in wanted)
        return Headers(
            name=LIGHT,
            include_dirs=(str(place), *_device_dirs(names, emulated=emulated), str(NATIVE), *include_dirs),
            defines=("AT_PER_OPERATOR_HEADERS",),
            missing=lambda artifact: _missing(artifact, trimmed),
            settles=lambda log: is_certain(log, sources, gcc.precompiled_directory()),
            settles_entry=makes_no_entry(sources, gcc.precompiled_directory()),
        )
    except (OSError, ValueError) as error:  # a header is not where it was, or has no such end
        return f"this version of torch has headers of another shape: {error}"


def _device_dirs(names: frozenset[str], *, emulated: bool) -> list[str]:
    """Return directories that stand for torch's CUDA headers; the emulated device brings its own."""
    if emulated:
        return []
    opaque = not any(word in name for name in names for word in LIBRARY_WORDS)
    return [str(NATIVE / "cuda"), *([str(NATIVE / "opaque")] if opaque else [])]


def _names(code: bytes) -> Iterator[str]:
    """Every name in a source, comments and literals left out, and `tensor(` for a call of that; macros' bodies are read too."""
    texts = [token.text for token in parse(code) if token.text[-1] not in "\"'"]
    words = [word for text in texts for word in re.findall(r"\w+", text)]
    yield from words
    yield from defined_macros(code)
    if b"##" in code:  # a macro that glues names makes methods that work in place of those that do not
        yield from (f"{word}_" for word in words)
    if ("tensor", "(") in pairwise(texts):
        yield "tensor("


def _definitions(text: str, *, method: bool = False) -> dict[str, str]:
    """The inline functions at the left margin, by name; those of one name joined."""
    texts: dict[str, str] = {}
    for match in _DEFINITION.finditer(text):
        if (match[1] is not None) is method:
            texts[match[2]] = f"{texts.get(match[2], '')}{match[0]}\n"
    return texts


def _named_header(torch_include: Path, names: frozenset[str], methods: Mapping[str, str]) -> str:
    """Return a header for the names of the sources: headers of the standard library, operators, methods, and torch's factories."""
    operators = torch_include / "ATen/ops"
    headers = [header for header, words in NEEDED_BY.items() if not names.isdisjoint(words.split())]
    if any(name.startswith("AT_DISPATCH") for name in names):
        headers.append("ATen/Dispatch.h")
    signatures = sorted({operator for method in methods if (operator := _operator_of(operators, method))})
    functions = sorted({operator for name in names if (operator := _operator_of(operators, name))})
    if any("ITensorListRef" in (operators / f"{name}.h").read_text("utf-8") for name in functions):
        headers.append("ATen/core/IListRef.h")
    lines = ["#pragma once", *(f"#include <{header}>" for header in headers)]
    lines += [f"#include <ATen/ops/{name}_ops.h>" for name in signatures]
    lines += [f"#include <ATen/ops/{name}.h>" for name in functions]
    lines += ["namespace at {", *methods.values()]
    lines += _taken(torch_include / "ATen/Functions.h", names)
    lines += ["}", "namespace torch {"]
    factories = _taken(torch_include / "torch/csrc/autograd/generated/variable_factories.h", names)
    lines += [text.replace("autograd::make_variable(", "::grader::fresh_variable(") for text in factories]
    lines += ["}", ""]
    return "\n".join(lines)


def _wrapped_header(torch_include: Path, names: frozenset[str]) -> str:
    """`torch::wrap_pybind_function`, which `load_inline` writes around every function: the last part of torch/csrc/Exceptions.h."""
    text = _text(torch_include / "torch/csrc/Exceptions.h") if names & WRAPPERS else ""
    wrapper = re.search(r"^struct PyWarningHandler \{[\s\S]*^\} // namespace torch.*$", text, re.MULTILINE)
    if wrapper is None:
        return "#pragma once\n"
    macros = [_piece(text, rf"^#define {name}\b(?:.*\\\n)*.*$") for name in ("HANDLE_TH_ERRORS", "END_HANDLE_TH_ERRORS_PYBIND")]
    head = ["#pragma once", "#include <ATen/detail/FunctionTraits.h>", "#include <torch/csrc/jit/runtime/jit_exception.h>"]
    declared = ["namespace torch {", "TORCH_PYTHON_API void translate_exception_to_python(const std::exception_ptr&);"]
    return "\n".join([*head, *macros, *declared, wrapper[0], ""])


def _operator_of(operators: Path, name: str) -> str | None:
    """The operator under whose name torch has a function or method: several forms of one lie in one header."""
    name = name.removeprefix("__dispatch_")
    forms = ("", "_", "_symint", "__symint", "_out", "_outf", "_symint_out", "_symint_outf")
    bases = [*(name.removesuffix(form) for form in forms), name.strip("_"), name.strip("_").removeprefix("i")]
    return next((base for base in bases if (operators / f"{base}.h").exists()), None)


def _taken(header: Path, names: frozenset[str]) -> list[str]:
    # `tensor` is a name that variables have, and its function needs much; so it counts where it is called.
    return [text for name, text in _definitions(_text(header)).items() if name in names and (name != "tensor" or "tensor(" in names)]


def _missing(artifact: bytes, trimmed: tuple[str, ...]) -> str | None:
    """A method that torch's inline code calls, and that the sources do not name."""
    matches = (re.match(r"_ZNK?2at6Tensor(\d+)(\w+)", name) for name in undefined_names(artifact))
    methods = (match[2][: int(match[1])] for match in matches if match is not None)
    return next((f"Tensor::{method} is called, but not by name" for method in methods if method in trimmed), None)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
