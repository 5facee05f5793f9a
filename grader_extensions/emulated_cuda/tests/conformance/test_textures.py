"""Wrong uses of textures on the emulated device: none reads outside its resource, and each ends as an error or as a fault with a line."""

import signal
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, program_of, run

pytestmark = pytest.mark.slow  # seconds of g++ each

HEAD = """
#include <cmath>
#include <cstdio>
#include <cstring>
__global__ void point(cudaTextureObject_t t, float x, float* out) { *out = tex1D<float>(t, x); }
__global__ void flat(cudaTextureObject_t t, float x, float y, float* out) { *out = tex2D<float>(t, x, y); }
__global__ void index(cudaTextureObject_t t, int i, float* out) { *out = tex1Dfetch<float>(t, i); }
__global__ void straight(const float* x, int i, float* out) { *out = x[i]; }

cudaResourceDesc over(void* memory, size_t bytes) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = bytes;
    return resource;
}
cudaResourceDesc over(cudaArray_t array) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    return resource;
}
cudaTextureObject_t texture(const cudaResourceDesc& resource, int mode = 0, int filter = 0, int normalized = 0) {
    cudaTextureDesc how{};
    for (auto& one : how.addressMode) one = static_cast<cudaTextureAddressMode>(mode);
    how.filterMode = static_cast<cudaTextureFilterMode>(filter);
    how.normalizedCoords = normalized;
    cudaTextureObject_t made = 0;
    cudaError_t error = cudaCreateTextureObject(&made, &resource, &how, nullptr);
    if (error != cudaSuccess) printf("%s\\n", cudaGetErrorName(error));
    return made;
}
cudaArray_t array_of(size_t width, size_t height) {
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    cudaArray_t array = nullptr;
    cudaError_t error = cudaMallocArray(&array, &desc, width, height);
    if (error != cudaSuccess) printf("%s\\n", cudaGetErrorName(error));
    float ones[64];
    for (float& one : ones) one = 1;
    size_t rows = height ? height : 1;
    if (array && width * rows <= 64) cudaMemcpy2DToArray(array, 0, 0, ones, 4 * width, 4 * width, rows, cudaMemcpyHostToDevice);
    return array;
}
"""

RANGE = """
int main() {
    float *x, *out, big[] = {-INFINITY, -3e38f, -2147483648.0f, -4.25f, -1e-30f, 0, 3.999999f, 4, 4.5f, 1e9f, 3e38f, INFINITY, NAN};
    cudaMalloc(&x, 4096);
    cudaMalloc(&out, 4);
    for (int i = 0; i < 1024; ++i) x[i] = 1;
    int wrong = 0, fetches = 0;
    cudaArray_t row = array_of(1024, 0), sheet = array_of(4, 4);
    cudaMemcpy2DToArray(row, 0, 0, x, 4096, 4096, 1, cudaMemcpyHostToDevice);
    for (int mode = 0; mode < 4; ++mode)
        for (int filter = 0; filter < 2; ++filter)
            for (int normalized = 0; normalized < 2; ++normalized)
                for (float at : big) {
                    point<<<1, 1>>>(texture(over(row), mode, filter, normalized), at, out);
                    wrong += mode == 3 ? !(*out >= 0 && *out <= 1) : *out != 1;
                    flat<<<1, 1>>>(texture(over(sheet), mode, filter, normalized), at, -at, out);
                    wrong += mode == 3 ? !(*out >= 0 && *out <= 1) : *out != 1;
                    fetches += 2;
                }
    for (int i : {-2147483647 - 1, -1, 1024, 1 << 28, 2147483647}) {
        index<<<1, 1>>>(texture(over(x, 4096)), i, out);
        wrong += *out != 0;
    }
    printf("%d fetches, %d wrong\\n", fetches, wrong);
    fflush(stdout);
    straight<<<1, 1>>>(x, 1024, out);
}
"""


def test_no_coordinate_leaves_the_resource(build: Build) -> None:
    """Every address mode and filter; tex1Dfetch gives 0 outside. The control: a plain read behind the same memory is a fault."""
    outcome = run(build(HEAD + RANGE))
    assert outcome.stdout == "416 fetches, 0 wrong\n"
    assert outcome.returncode == -signal.SIGSEGV
    assert outcome.stderr == "emulated device: illegal address in kernel straight, block (0,0,0)\n"


NO_OBJECT = "a fetch through a value that is no texture object"
WRONG_FUNCTION = "a fetch with a function for other dimensions than the texture object has"
NOT_LINEAR = "tex1Dfetch from a texture object that is not over linear memory"
FAULTS = {
    "null": ("index<<<1, 1>>>(0, 0, out);", NO_OBJECT),
    "a number": ("index<<<1, 1>>>(12345, 0, out);", NO_OBJECT),
    "all bits": ("index<<<1, 1>>>(~0ull, 0, out);", NO_OBJECT),
    "the next handle": ("index<<<1, 1>>>(made + 1, 0, out);", NO_OBJECT),
    "a far handle": ("index<<<1, 1>>>(made + 1000000, 0, out);", NO_OBJECT),
    "destroyed": ("cudaDestroyTextureObject(made); index<<<1, 1>>>(made, 0, out);", NO_OBJECT),
    "destroyed and made again": ("cudaDestroyTextureObject(made); texture(over(x, 512)); index<<<1, 1>>>(made, 0, out);", NO_OBJECT),
    "tex2D of linear memory": ("flat<<<1, 1>>>(made, 0, 0, out);", "a fetch from linear memory with another function than tex1Dfetch"),
    "tex1Dfetch of an array": ("index<<<1, 1>>>(texture(over(array_of(4, 4))), 0, out);", NOT_LINEAR),
    "tex1D of a plane": ("point<<<1, 1>>>(texture(over(array_of(4, 4))), 0, out);", WRONG_FUNCTION),
    "tex2D of a row": ("flat<<<1, 1>>>(texture(over(array_of(4, 0))), 0, 0, out);", WRONG_FUNCTION),
    "a resource larger than its memory": ("index<<<1, 1>>>(texture(over(x, 1 << 20)), 200000, out);", "illegal address"),
    "an array that is gone": (
        "cudaArray_t row = array_of(8, 0); auto t = texture(over(row)); cudaFreeArray(row); point<<<1, 1>>>(t, 0, out);",
        "illegal address",
    ),
    "nothing wrong": ('index<<<1, 1>>>(made, 3, out); printf("%g\\n", *out);', ""),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that commits the fault of the number that it is given."""
    directory = tmp_path_factory.mktemp("textures")
    cases = "".join(f"case {number}: {{ {code} break; }}\n" for number, (code, _) in enumerate(FAULTS.values()))
    main = "float *x, *out; cudaMalloc(&x, 512); cudaMalloc(&out, 4); for (int i = 0; i < 128; ++i) x[i] = i;\n"
    main += "cudaTextureObject_t made = texture(over(x, 512));\n"
    text = f"{HEAD}int main(int, char** words) {{ {main} switch (atoi(words[1])) {{\n{cases} }} }}\n"
    return program_of(text, directory)


@pytest.mark.parametrize(("number", "case"), list(enumerate(FAULTS)), ids=list(FAULTS))
def test_a_wrong_texture_object_ends_the_launch_with_a_line(number: int, case: str, faulty: Path) -> None:
    """A handle that was forged or destroyed is none; memory that is gone is a fault. With nothing wrong there is none."""
    code, what = FAULTS[case]
    kernel = code.partition("<<<")[0].split()[-1]
    outcome = run(faulty, number)
    if not what:
        assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "3\n", "")
        return
    assert outcome.stderr == f"emulated device: {what} in kernel {kernel}, block (0,0,0)\n"
    assert outcome.returncode == (-signal.SIGSEGV if what == "illegal address" else -signal.SIGABRT)


ERRORS = """
void say(cudaError_t error) { printf("%s\\n", cudaGetErrorName(error)); }
int main() {
    float *x, host[64];
    cudaMalloc(&x, 4096);
    texture(over(x + 1, 64));
    texture(over(nullptr, 64));
    texture(over(x, size_t{1} << 40));
    cudaResourceDesc resource = over(x, 64);
    resource.res.linear.desc = {32, 32, 32, 0, cudaChannelFormatKindFloat};
    texture(resource);
    resource.res.linear.desc = cudaCreateChannelDesc<double>();
    texture(resource);
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {x, cudaCreateChannelDesc<float>(), 16, 4, 68};
    texture(resource);
    resource.res.pitch2D.pitchInBytes = 32;
    texture(resource);
    texture(over(x, 64), 4);
    texture(over(reinterpret_cast<cudaArray_t>(x)));
    say(cudaFreeArray(reinterpret_cast<cudaArray_t>(x)));
    cudaArray_t row = array_of(8, 0);
    say(cudaMemcpy2DToArray(row, 4, 0, host, 32, 32, 1, cudaMemcpyHostToDevice));
    say(cudaMemcpy2DToArray(row, 0, 1, host, 32, 32, 1, cudaMemcpyHostToDevice));
    say(cudaMemcpy2DToArray(row, ~size_t{0}, 0, host, 32, 4, 1, cudaMemcpyHostToDevice));
    say(cudaMemcpy2DFromArray(host, 32, row, 0, 0, 36, 1, cudaMemcpyDeviceToHost));
    say(cudaMemcpy2DFromArray(host, 32, row, 0, 0, 32, 1, cudaMemcpyDeviceToHost));
    say(cudaFreeArray(row));
    say(cudaFreeArray(row));
    cudaTextureObject_t made = texture(over(x, 64));
    say(cudaDestroyTextureObject(made));
    say(cudaDestroyTextureObject(made));
    array_of(1 << 20, 0);
}
"""
INVALID, HANDLE, PITCH, SUCCESS = "cudaErrorInvalidValue", "cudaErrorInvalidResourceHandle", "cudaErrorInvalidPitchValue", "cudaSuccess"


def test_wrong_descriptors_and_copies_are_errors(build: Build) -> None:
    """A right copy, a right object and the first call of each pair that frees are the controls."""
    outcome = run(build(HEAD + ERRORS))
    expected = [*[INVALID] * 8, HANDLE, HANDLE, *[INVALID] * 3, PITCH, SUCCESS, SUCCESS, HANDLE, SUCCESS, INVALID, INVALID]
    assert (outcome.stdout.split(), outcome.stderr, outcome.returncode) == (expected, "", 0)


def test_arrays_are_device_memory(build: Build) -> None:
    """One that is larger than the machine's memory is not made; the pages of one that is freed are gone."""
    main = """
int main() {
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float4>();
    cudaArray_t array = nullptr;
    int made = 0;
    for (int turn = 0; turn < 64; ++turn)
        made += cudaMallocArray(&array, &desc, 65536, 256) == cudaSuccess && cudaFreeArray(array) == cudaSuccess;
    cudaError_t error = cudaSuccess;
    cudaExtent extent = make_cudaExtent(16384, 16384, 16384);
    for (int turn = 0; turn < 4096 && error == cudaSuccess; ++turn) error = cudaMalloc3DArray(&array, &desc, extent);
    printf("%d %s\\n", made, cudaGetErrorName(error));
}
"""
    assert run(build(HEAD + main)).stdout == "64 cudaErrorMemoryAllocation\n"
