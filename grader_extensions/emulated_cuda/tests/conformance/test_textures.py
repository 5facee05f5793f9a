"""Wrong uses of textures on the emulated device: none reads outside its resource, and each ends as an error or as a fault with a line."""

import signal
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, program_of, run

pytestmark = pytest.mark.slow  # seconds of g++ each

HEAD = """
#include <cstdio>
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
cudaTextureObject_t texture(const cudaResourceDesc& resource, int mode = 0) {
    cudaTextureDesc how{};
    for (auto& one : how.addressMode) one = static_cast<cudaTextureAddressMode>(mode);
    cudaTextureObject_t made = 0;
    cudaError_t error = cudaCreateTextureObject(&made, &resource, &how, nullptr);
    if (error != cudaSuccess) printf("%s\\n", cudaGetErrorName(error));
    return made;
}
"""

NO_OBJECT = "a fetch through a value that is no texture object"
FAULTS = {
    "null": ("index<<<1, 1>>>(0, 0, out);", NO_OBJECT),
    "a number": ("index<<<1, 1>>>(12345, 0, out);", NO_OBJECT),
    "all bits": ("index<<<1, 1>>>(~0ull, 0, out);", NO_OBJECT),
    "the next handle": ("index<<<1, 1>>>(made + 1, 0, out);", NO_OBJECT),
    "a far handle": ("index<<<1, 1>>>(made + 1000000, 0, out);", NO_OBJECT),
    "destroyed": ("cudaDestroyTextureObject(made); index<<<1, 1>>>(made, 0, out);", NO_OBJECT),
    "destroyed and made again": ("cudaDestroyTextureObject(made); texture(over(x, 512)); index<<<1, 1>>>(made, 0, out);", NO_OBJECT),
    "a resource larger than its memory": ("index<<<1, 1>>>(texture(over(x, 1 << 20)), 200000, out);", "illegal address"),
    "a plain read behind the memory": ("straight<<<1, 1>>>(x, 128, out);", "illegal address"),
    "nothing wrong": (
        'for (int i : {3, -1, -2147483647 - 1, 128, 1 << 28, 2147483647}) { index<<<1, 1>>>(made, i, out); printf("%g ", *out); }',
        "",
    ),
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
    """A handle that was forged or destroyed is none; memory that is gone is a fault. An index outside the resource gives 0."""
    code, fault = FAULTS[case]
    kernel = code.partition("<<<")[0].split()[-1]
    outcome = run(faulty, number)
    if not fault:
        assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "3 0 0 0 0 0 ", "")
        return
    assert outcome.stderr == f"emulated device: {fault} in kernel {kernel}, block (0,0,0)\n"
    assert outcome.returncode == (-signal.SIGSEGV if fault == "illegal address" else -signal.SIGABRT)


def test_wrong_descriptors_are_errors(build: Build) -> None:
    """A right object and the first call of the pair that destroys it are the controls."""
    main = """
int main() {
    float* x;
    cudaMalloc(&x, 4096);
    texture(over(x + 1, 64));
    texture(over(nullptr, 64));
    texture(over(x, size_t{1} << 40));
    texture(over(x, 64), 4);
    cudaResourceDesc resource = over(x, 64);
    resource.res.linear.desc = {32, 32, 32, 0, cudaChannelFormatKindFloat};
    texture(resource);
    resource.res.linear.desc = cudaCreateChannelDesc<double>();
    texture(resource);
    cudaTextureObject_t made = texture(over(x, 64));
    printf("%s %s\\n", cudaGetErrorName(cudaDestroyTextureObject(made)), cudaGetErrorName(cudaDestroyTextureObject(made)));
}
"""
    assert run(build(HEAD + main)).stdout.split() == [*["cudaErrorInvalidValue"] * 7, "cudaSuccess"]
