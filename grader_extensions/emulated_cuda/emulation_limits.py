"""Limits of the emulated device, found in the source or in g++'s log and said in one sentence.

Libraries: decides by names alone which headers there are and what calls one that needs a GPU. A published kernel often stands in one file
with a `main` that compares it with cuBLAS, and nothing calls that `main` here: a function never runs where no name leads to it from the
entry, from a macro, or from what stands outside functions.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tree_sitter import Node

from grader_extensions.emulated_cuda.conditionals import left_out_of_device_code
from sandbox.compilers.cuda_tokens import NAMES, Token, defined_macros, descendants, readable_tree
from sandbox.compilers.steps import Unsupported

# Thrust, CUB and libcu++; toolkits before 13 have them among their other headers.
OPEN = ("include/cccl", "include")
MARK = "cuda/std/span"
ELSEWHERE = "use a CUDA device for this kernel"
NATIVE = Path(__file__).resolve().parent / "native"
# Functions on the host whose work only a GPU's library does: how they begin, and whose they are. Their headers declare types only.
HOST_LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "nccl": "NCCL",
    "nvrtc": "NVRTC",
    "curand": "cuRAND's host functions",
}
_CALL = re.compile(rf"({'|'.join(HOST_LIBRARIES)})(?:[A-Z]\w*|_v2)")
# Parts of the toolkit that are included from where it is installed.
FROM_TOOLKIT = ("cuda/std/", "thrust/", "nv/")
# Synchronisation of libcu++ that would spin without letting the other threads of a block run.
WITHOUT_YIELD = ("cuda/latch", "cuda/semaphore", "cuda/std/latch", "cuda/std/semaphore")
CUTLASS = ("cute/", "cutlass/")
_ERROR = re.compile(r"^(?P<place>[^:\n]+:\d+:\d+): (?:fatal )?error: (?P<message>.*)$", re.MULTILINE)
_QUOTED = r"[‘'](?P<name>\w+)[’']"
_UNKNOWN = re.compile(
    rf"(?:there are no arguments to )?{_QUOTED} (?:was not declared in this scope|does not name a type|has not been declared"
    r"|(?P<member>is not a member of) [‘'](?:cuda|cub|thrust|cooperative_groups|nvcuda)\b|that depend on a template parameter)"
)
_NO_FILE = re.compile(r"(?P<name>\S+): No such file or directory")
_CUDA_NAME = re.compile(r"cuda[A-Z]\w*|curand\w+|cu[A-Z]\w*|CU[A-Z_]\w*|CUDA_\w+|__[a-z]\w*")
_WORD = re.compile(r"[A-Za-z_]\w*")
WITHOUT_MASK = ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all")  # no GPU since Volta has them
CLOSE = 0.8
CLUSTER = f"the emulated device cannot read this __cluster_dims__; write it between __global__ and the kernel's body, or {ELSEWHERE}"
SURFACE = f"the emulated device has no surfaces; {ELSEWHERE}"
TEXTURE = f"the emulated device has textures over linear memory only, read by tex1Dfetch; {ELSEWHERE}"
TEXTURE_REFERENCE = "texture references were removed from CUDA with version 12; use a texture object (cudaTextureObject_t)"
TMA = f"the emulated device has no tensor memory accelerator (TMA); {ELSEWHERE}"
EXPONENTS = f"the emulated device has no fp8 type of exponents only (e8m0); {ELSEWHERE}"
NESTED_LAUNCH = f"the emulated device has no kernels launched by kernels (dynamic parallelism); {ELSEWHERE}"
ARCHITECTURE = f"the emulated device has no __CUDA_ARCH__, and would leave out what this guards; add an #else, or {ELSEWHERE}"
ODD_SHARED = "this shared variable cannot be read by the emulated device; declare it as `__shared__ T name[size];`"
GLOBAL_SHARED = "the emulated device has no shared variables outside functions; declare it inside the kernel"
ODD_LAUNCH = "this launch cannot be read by the emulated device; write it as `kernel<<<grid, block>>>(arguments);`"
# The emulated device defines it nowhere.
ARCHITECTURE_MACRO = b"__CUDA_ARCH__"
# Names by which a feature is used, in code or in a macro.
FEATURES = {
    "cudaLaunchCooperativeKernelMultiDevice": f"the emulated device has no cooperative launches on several devices; {ELSEWHERE}",
    "cudaLaunchKernelExC": f"the emulated device has no cudaLaunchKernelExC; write cudaLaunchKernelEx, or {ELSEWHERE}",
    **dict.fromkeys(("cudaSurfaceObject_t", "cudaCreateSurfaceObject"), SURFACE),
    **dict.fromkeys((f"tex{axes}D{kind}" for axes in "123" for kind in ("", "Lod", "Grad")), TEXTURE),
    **dict.fromkeys(("tex1DLayered", "tex2DLayered", "texCubemap", "texCubemapLayered", "tex2Dgather", "cudaResourceViewDesc"), TEXTURE),
    **dict.fromkeys(("cudaArray_t", "cudaMallocArray", "cudaMalloc3DArray", "cudaMipmappedArray_t"), TEXTURE),
    **dict.fromkeys(("cudaResourceTypeArray", "cudaResourceTypeMipmappedArray", "cudaResourceTypePitch2D"), TEXTURE),
    **dict.fromkeys(("cudaStreamTailLaunch", "cudaStreamFireAndForget"), NESTED_LAUNCH),
    **dict.fromkeys(("textureReference", "cudaBindTexture", "cudaBindTexture2D", "cudaBindTextureToArray"), TEXTURE_REFERENCE),
    **dict.fromkeys(("memcpy_async_tx", "barrier_expect_tx", "barrier_arrive_tx", "barrier_native_handle"), TMA),
    **dict.fromkeys(("CUtensorMap", "cuTensorMapEncodeTiled"), TMA),
    **dict.fromkeys(("__nv_fp8_e8m0", "__nv_fp8x2_e8m0", "__nv_fp8x4_e8m0"), EXPONENTS),
}
# Headers whose contents nothing here stands for.
HEADERS = {
    "cuda/ptx": f"the emulated device has no cuda/ptx; write the instruction as inline PTX (asm), or {ELSEWHERE}",
    "cudaTypedefs.h": TMA,
    "cuda_fp4.h": f"the emulated device has no fp4 types; {ELSEWHERE}",
}
# What `texture<...>` is a reference of; a template of the user's own may have that name.
_TEXEL = re.compile(r"float|unsigned|int|short|char|(?:float|u?int|u?short|u?char)[124]")
LIBRARIES = ("ATen/cuda/CUDABlas", "ATen/native/cuda/", "ATen/cuda/cub")
_LIBRARY = re.compile("|".join(HOST_LIBRARIES))
_ALIAS = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w+)[ \t]*$", re.MULTILINE)
_CLASSES = ("class_specifier", "struct_specifier")
_BYTE_WORD = re.compile(rb"[A-Za-z_]\w*")


@cache
def open_headers() -> Path | None:
    """The toolkit's directory that holds `cuda/std` and `thrust`: of CUDA_HOME, where nvcc on the PATH lies, or the usual place."""
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_HOME"), Path(nvcc).parent.parent if nvcc else None, "/usr/local/cuda"]
    return next((Path(root, part) for root in roots if root for part in OPEN if Path(root, part, MARK).is_file()), None)


def _toolkit_directories() -> list[Path]:
    directory = open_headers()
    places = () if directory is None else (directory, directory.parent)
    return [place for place in places if place.name in ("include", "cccl")]  # the parent of `include` is the toolkit


def toolkit_has(name: str) -> bool:
    """Return whether the toolkit has a header of this name, open or not."""
    return any((place / name).is_file() for place in _toolkit_directories())


def _toolkit_declares(name: str) -> bool:
    """Return whether the toolkit's headers of device functions know it: those without a prefix, such as umin."""
    paths = (path for place in _toolkit_directories() for path in place.glob("crt/*_functions.h*"))
    return any(re.search(rf"\b{name}\s*\(", path.read_text("utf-8", "replace")) for path in paths)


def library_call(name: str) -> str | None:
    """The sentence about a call of this function, where it belongs to a library that the emulated device has not."""
    match = _CALL.fullmatch(name)
    if match is None or name.endswith("_t"):
        return None
    return f"the emulated device has no {HOST_LIBRARIES[match[1]]}, of which {name} is called here; {ELSEWHERE}"


def missing_header(name: str, *, in_toolkit: Callable[[str], bool] = toolkit_has) -> str | None:
    """The sentence about an include of a library's header that is not there; None for all others."""
    if name.startswith(CUTLASS):
        return f"CUTLASS is not installed for the emulated device, which has no {name}; {ELSEWHERE}"
    if name in WITHOUT_YIELD:
        return f"the emulated device has no {name}; {ELSEWHERE}"
    if name.startswith("thrust/system/cuda/") and name != "thrust/system/cuda/execution_policy.h":
        return f"the emulated device has no {name}: there, Thrust works on the host; {ELSEWHERE}"
    if (NATIVE / name).is_file() and not name.startswith("thrust/"):
        return None
    if name.startswith("cub/"):
        return f"the emulated device has no {name}, only the parts of CUB that most kernels use; {ELSEWHERE}"
    # A header with a suffix in a directory `cuda` is the submission's own: libcu++ has none.
    from_toolkit = name.startswith(FROM_TOOLKIT) or (name.startswith("cuda/") and "." not in name)
    if from_toolkit and not in_toolkit(name):
        return f"the emulated device takes {name} from the CUDA toolkit, and it is not installed here; {ELSEWHERE}"
    return None


def unknown_name(log: str, texts: str) -> str | None:
    """The sentence about the first error of g++, where that is a name or header of CUDA's which the emulated device has not.

    A slip in a name that the source itself declares stays an error, whatever the name begins with. texts: all sources.
    """
    first = _ERROR.search(log)
    if first is not None and (header := _NO_FILE.fullmatch(first["message"])) is not None and toolkit_has(header["name"]):
        return f"the emulated device has no {header['name']}; {ELSEWHERE}"
    unknown = None if first is None else _UNKNOWN.search(first["message"])
    name = unknown["name"] if unknown is not None else ""
    if (sentence := library_call(name)) and any(word == name for _, word in _aliases(texts)):
        return sentence
    if unknown is None or not (unknown["member"] or _CUDA_NAME.fullmatch(name) or _toolkit_declares(name)):
        return None
    declared = {word for word in set(_WORD.findall(texts)) - {name} if _declares(texts, word)}
    if difflib.get_close_matches(name, declared, n=1, cutoff=CLOSE):
        return None
    if name in WITHOUT_MASK:
        return f"{name} was removed from CUDA; write {name}_sync, whose first argument is the mask of the lanes, such as 0xffffffff"
    return f"the emulated device has no {name}; {ELSEWHERE}"


def first_place(log: str) -> str:
    """Return the file, line and column of the first error of g++."""
    first = _ERROR.search(log)
    return "" if first is None else first["place"]


def _declares(texts: str, name: str) -> bool:
    """Return whether the sources seem to declare it: behind a type, or as a macro."""
    if len(name) < 3:
        return False
    return re.search(rf"(?:#\s*define\s+|(?<!return)(?<![=(,;{{}}])[\w>*&]\s*[\s*&]){name}\s*[({{\[;=,)<:]", texts) is not None


def check(tokens: list[Token], path: str, *, defined: Collection[str], readable: bool) -> None:
    """Raise Unsupported for the first thing in the file that the emulated device does not cover. defined: the sources' own functions.
    readable: the syntax of one with a launch in device code has no error."""
    for index, token in enumerate(tokens):
        if token.text == "<<<" and token.in_device_code and not readable:
            return  # a brace may be missing before it: the compiler says so
        following = [t.text for t in tokens[index + 1 : index + 3]]
        sentence = _objection(token, following, defined=defined)
        if sentence is not None:
            raise Unsupported(path, token.line, sentence)


def check_conditionals(code: bytes, path: str) -> None:
    """Raise Unsupported for work that is done on some architectures only: left out, it would be a wrong answer that nobody understands."""
    for line in left_out_of_device_code(code, ARCHITECTURE_MACRO) if ARCHITECTURE_MACRO in code else ():
        raise Unsupported(path, line, ARCHITECTURE)


def _objection(token: Token, following: list[str], *, defined: Collection[str]) -> str | None:
    if token.include is not None:
        name = token.include
        if name in HEADERS:
            return HEADERS[name]
        if name.startswith(LIBRARIES):
            return f"the emulated device has no {name}: that library runs on GPUs only; {ELSEWHERE}"
        return missing_header(name)
    if token.text in FEATURES:
        return FEATURES[token.text]
    if token.text == "texture" and following[:1] == ["<"] and _TEXEL.fullmatch("".join(following[1:2])) is not None:
        return TEXTURE_REFERENCE
    if following[:1] == ["("] and token.text not in defined and (called := library_call(token.text)) is not None:
        return called
    if token.text in ("<<<", "cudaDeviceSynchronize") and token.in_device_code:
        return NESTED_LAUNCH
    return ODD_LAUNCH if token.text == "<<<" and token.callee is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCalls:
    """defined: names that the sources themselves define, whatever they begin with; aliases: those of them that stand for a library's
    function, by a macro. unreached: the functions that never run."""

    defined: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    unreached: frozenset[str] = frozenset()

    def is_foreign(self, name: str) -> bool:
        """Return whether a call of this name is one of a library that the emulated device lacks."""
        return name in self.aliases or (name not in self.defined and library_call(name) is not None)

    def unreached_bodies(self, code: bytes) -> list[tuple[int, int]]:
        """The bytes between braces, braces included, of a source's functions that never run and call a library."""
        functions = [function for function in _functions(readable_tree(code)) if function.name in self.unreached] if self.unreached else []
        return [(function.body.start_byte, function.body.end_byte) for function in functions if any(map(self.is_foreign, function.names))]


NO_LIBRARIES = LibraryCalls()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """name: "" of one that can run without being named, such as a destructor."""

    name: str
    body: Node
    names: frozenset[str]


def library_calls(sources: Iterable[str], entry: str) -> LibraryCalls:
    """Read all sources of a submission; entry: the function that is called from outside. Where they do not have it, everything may run."""
    codes = [source.encode() for source in sources]
    if not any(_LIBRARY.search(code.decode(errors="surrogateescape")) for code in codes):
        return LibraryCalls()
    outside: set[str] = set()
    macros: set[str] = set()
    bodies = defaultdict[str, set[str]](set)
    roots = [readable_tree(code) for code in codes]
    for function in (function for root in roots for function in _functions(root)):
        bodies[function.name] |= function.names
    for code, root in zip(codes, roots, strict=True):
        outside |= _names(_outside_functions(root, bodies.keys() - {""}))
        macros.update(defined_macros(code))
    has_entry = any(entry in names for names in (outside, *bodies.values()))
    unreached = bodies.keys() - _reached(bodies, {*outside, entry}) - {""} if has_entry else ()
    aliases = frozenset(name for code in codes for name, word in _aliases(code.decode(errors="surrogateescape")) if library_call(word))
    return LibraryCalls(defined=frozenset({*bodies, *macros} - {""}), aliases=aliases, unreached=frozenset(unreached))


def _aliases(text: str) -> list[tuple[str, str]]:
    """Macros that stand for one word, each with it."""
    return _ALIAS.findall(text)


def _reached(bodies: Mapping[str, set[str]], outside: set[str]) -> set[str]:
    """Return the names that these lead to, by the bodies of functions; a function without a name is reached in any case."""
    reached, waiting = set(), outside | bodies.get("", set())
    while waiting:
        reached |= waiting
        waiting = set().union(*(bodies.get(name, ()) for name in waiting)) - reached
    return reached


def _functions(root: Node) -> Iterator[_Function]:
    """Every function with a body that stands in no other function."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        body = _body(node)
        if body is None:
            waiting.extend(node.children)
        else:
            yield _Function(name=_name(node), body=body, names=frozenset(_names(descendants(node))))


def _name(function: Node) -> str:
    """Return the name of a function in a call; "" of an operator, a destructor and what is exported to C, which others call."""
    at = function.child_by_field_name("declarator")
    while at is not None and at.type not in NAMES:
        inner = at.child_by_field_name("declarator") or at.child_by_field_name("name")
        at = inner if inner is not None else next((child for child in at.named_children if child.type.endswith("_declarator")), None)
    above = function.parent  # `extern "C" void f() {}`, or a block of such functions
    exported = above is not None and "linkage_specification" in (above.type, above.parent.type if above.parent is not None else "")
    return "" if at is None or exported else (at.text or b"").decode(errors="surrogateescape")


def _outside_functions(root: Node, defined: Collection[str]) -> Iterator[Node]:
    """Yield the nodes outside functions, and the bodies of all macros. A declaration of a function calls nothing but its default values."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if _body(node) is not None:
            yield from (inner for inner in descendants(node) if inner.type == "preproc_arg")
        elif _only_declares(node, defined):
            waiting.extend(filter(None, (inner.child_by_field_name("default_value") for inner in descendants(node))))
        else:
            yield node
            name = node.child_by_field_name("name") if node.type in _CLASSES and _stands_alone(node) else None
            waiting.extend(child for child in node.children if child != name)  # no object is made by it, so that no constructor runs


def _stands_alone(node: Node) -> bool:
    return node.parent is None or node.parent.type not in ("declaration", "field_declaration", "type_definition")


def _only_declares(node: Node, defined: Collection[str]) -> bool:
    """Return whether it declares or instantiates one function. `Kind name(value);` makes an object, unless a function has that name."""
    declarators = node.children_by_field_name("declarator") if node.type in ("declaration", "template_instantiation") else []
    if len(declarators) != 1 or not any(inner.type == "function_declarator" for inner in descendants(declarators[0])):
        return False
    written = node.child_by_field_name("type")
    returns_nothing = declarators[0].type == "function_declarator" and written is not None and written.text == b"void"
    return declarators[0].type != "init_declarator" and (returns_nothing or _name(node) in defined)


def _body(node: Node) -> Node | None:
    """That of a function; None of everything else, and of a function without braces."""
    body = node.child_by_field_name("body") if node.type == "function_definition" else None
    return body if body is not None and body.type == "compound_statement" else None


def _names(nodes: Iterable[Node]) -> set[str]:
    """All names among these, those in the bodies of macros too."""
    words_of_nodes = (_BYTE_WORD.findall(node.text or b"") for node in nodes if node.type == "preproc_arg" or node.type in NAMES)
    return {word.decode() for words in words_of_nodes for word in words}
