"""What the emulated device does not cover, found in the source and said in one sentence.  Decides nothing else."""

import re
from collections.abc import Collection

from sandbox.compilers import emulation_libraries
from sandbox.compilers.cuda_tokens import Token, left_out_of_device_code


class Unsupported(Exception):
    """A submission asks for something that the emulated device has not."""

    def __init__(self, path: str, line: int, sentence: str) -> None:
        self.path = path
        self.line = line
        self.sentence = sentence
        super().__init__(f"{path}:{line}: {sentence}")


ELSEWHERE = "use a CUDA device for this kernel"
CUDA_PTX = f"the emulated device has no cuda/ptx; write the instruction as inline PTX (asm), or {ELSEWHERE}"
COOPERATIVE = f"the emulated device has no cooperative launches on several devices; {ELSEWHERE}"
LAUNCH_C = f"the emulated device has no cudaLaunchKernelExC; write cudaLaunchKernelEx, or {ELSEWHERE}"
CLUSTER = f"the emulated device cannot read this __cluster_dims__; write it between __global__ and the kernel's body, or {ELSEWHERE}"
SURFACE = f"the emulated device has no surfaces; read the array through a texture object, or {ELSEWHERE}"
LAYERED = f"the emulated device has no layered or cubemap textures; {ELSEWHERE}"
MIPMAPPED = f"the emulated device has no mipmapped textures; {ELSEWHERE}"
GATHER = f"the emulated device has no texture gathers (tex2Dgather); {ELSEWHERE}"
TEXTURE_VIEW = f"the emulated device has no resource views of textures; {ELSEWHERE}"
TEXTURE_REFERENCE = "texture references were removed from CUDA with version 12; use a texture object (cudaTextureObject_t)"
TMA = f"the emulated device has no tensor memory accelerator (TMA); {ELSEWHERE}"
EXPONENTS = f"the emulated device has no fp8 type of exponents only (e8m0); {ELSEWHERE}"
DEVICE_SYNC = "device code of compute capability 9.0 has no cudaDeviceSynchronize; launch what follows into cudaStreamTailLaunch"
ARCHITECTURE = f"the emulated device has no __CUDA_ARCH__, and would leave out what this guards; add an #else, or {ELSEWHERE}"
ODD_SHARED = "this shared variable cannot be read by the emulated device; declare it as `__shared__ T name[size];`"
GLOBAL_SHARED = "the emulated device has no shared variables outside functions; declare it inside the kernel"
ODD_LAUNCH = "this launch cannot be read by the emulated device; write it as `kernel<<<grid, block>>>(arguments);`"

# The emulated device defines it nowhere.
ARCHITECTURE_MACRO = b"__CUDA_ARCH__"

# Names by which a feature is used, in code or in a macro.
NAMES = {
    "cudaLaunchCooperativeKernelMultiDevice": COOPERATIVE,
    "cudaLaunchKernelExC": LAUNCH_C,
    **dict.fromkeys(("cudaSurfaceObject_t", "cudaCreateSurfaceObject"), SURFACE),
    **dict.fromkeys(("tex1DLayered", "tex2DLayered", "texCubemap", "texCubemapLayered", "cudaArrayLayered", "cudaArrayCubemap"), LAYERED),
    **dict.fromkeys(("tex1DLod", "tex2DLod", "tex3DLod", "tex1DGrad", "tex2DGrad", "tex3DGrad"), MIPMAPPED),
    **dict.fromkeys(("cudaMipmappedArray_t", "cudaMallocMipmappedArray", "cudaResourceTypeMipmappedArray"), MIPMAPPED),
    **dict.fromkeys(("tex2Dgather", "cudaArrayTextureGather"), GATHER),
    "cudaResourceViewDesc": TEXTURE_VIEW,
    **dict.fromkeys(("textureReference", "cudaBindTexture", "cudaBindTexture2D", "cudaBindTextureToArray"), TEXTURE_REFERENCE),
    "memcpy_async_tx": TMA,
    "barrier_expect_tx": TMA,
    "barrier_arrive_tx": TMA,
    "barrier_native_handle": TMA,
    "CUtensorMap": TMA,
    "cuTensorMapEncodeTiled": TMA,
    "__nv_fp8_e8m0": EXPONENTS,
    "__nv_fp8x2_e8m0": EXPONENTS,
    "__nv_fp8x4_e8m0": EXPONENTS,
}

# Headers whose contents nothing here stands for.
HEADERS = {
    "cuda/ptx": CUDA_PTX,
    "cudaTypedefs.h": TMA,
    "cuda_fp4.h": f"the emulated device has no fp4 types; {ELSEWHERE}",
}
# What `texture<...>` is a reference of; a template of the user's own may have that name.
_TEXEL = re.compile(r"float|unsigned|int|short|char|(?:float|u?int|u?short|u?char)[124]")
LIBRARIES = (
    "ATen/cuda/CUDABlas",
    "ATen/native/cuda/",
    "ATen/cuda/cub",
)


def check(tokens: list[Token], path: str, *, device: bool, own: Collection[str] = ()) -> None:
    """Raise Unsupported for the first thing in the file that the emulated device does not cover. own: the sources' own functions."""
    for index, token in enumerate(tokens):
        following = [t.text for t in tokens[index + 1 : index + 5]]
        sentence = _objection(token, following, device=device, own=own)
        if sentence is not None:
            raise Unsupported(path, token.line, sentence)


def check_conditionals(code: bytes, path: str) -> None:
    """Raise Unsupported for work that is done on some architectures only: left out, it would be a wrong answer that nobody understands."""
    for line in left_out_of_device_code(code, ARCHITECTURE_MACRO) if ARCHITECTURE_MACRO in code else ():
        raise Unsupported(path, line, ARCHITECTURE)


def _objection(token: Token, following: list[str], *, device: bool, own: Collection[str]) -> str | None:
    if token.include is not None:
        return _header(token.include)
    if token.text in NAMES:
        return NAMES[token.text]
    if token.text == "texture" and following[:1] == ["<"] and _TEXEL.fullmatch("".join(following[1:2])) is not None:
        return TEXTURE_REFERENCE
    if following[:1] == ["("] and token.text not in own and (called := emulation_libraries.called(token.text)) is not None:
        return called
    if token.text == "cudaDeviceSynchronize" and token.in_device_code:
        return DEVICE_SYNC
    return ODD_LAUNCH if token.text == "<<<" and token.callee is None else None


def _header(name: str) -> str | None:
    if name in HEADERS:
        return HEADERS[name]
    missing = emulation_libraries.missing_header(name)
    if missing is not None:
        return missing
    library = next((prefix for prefix in LIBRARIES if name.startswith(prefix)), None)
    return None if library is None else f"the emulated device has no {name}: that library runs on GPUs only; {ELSEWHERE}"
