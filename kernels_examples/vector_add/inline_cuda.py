# expect: ACCEPTED
# CUDA C++ inside of Python: it is compiled once, when the module is imported where it is built, and only loaded where it runs.
import torch
from torch.utils.cpp_extension import load_inline

CUDA = """
__global__ void add(const float* a, const float* b, float* c, long n) {
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

torch::Tensor vector_add(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.is_cuda(), "inputs must be CUDA tensors");
    auto c = torch::empty_like(a);
    const long n = a.numel();
    add<<<(n + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}
"""

module = load_inline(
    name="vector_add",
    cpp_sources="torch::Tensor vector_add(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["vector_add"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


def custom_kernel(a, b):
    return module.vector_add(a, b)
