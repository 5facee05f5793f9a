# problem: row_statistics
# why: compiles CUDA C++ inside of Python, and returns a list of outputs made partly by its kernel and partly by torch
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
__global__ void moments(const float* x, float* mean, float* variance, long rows, long cols) {
    const long row = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0, square = 0;
    for (long j = 0; j < cols; ++j) sum += x[row * cols + j];
    const double middle = sum / cols;
    for (long j = 0; j < cols; ++j) square += (x[row * cols + j] - middle) * (x[row * cols + j] - middle);
    mean[row] = middle;
    variance[row] = square / cols;
}

std::vector<torch::Tensor> moments_of(torch::Tensor x) {
    auto mean = torch::empty({x.size(0)}, x.options()), variance = torch::empty_like(mean);
    moments<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), mean.data_ptr<float>(), variance.data_ptr<float>(), x.size(0), x.size(1));
    return {mean, variance};
}
"""

module = load_inline(
    name="row_moments",
    cpp_sources="std::vector<torch::Tensor> moments_of(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["moments_of"],
)


def custom_kernel(x):
    return [*module.moments_of(x), torch.argmax(x, dim=1)]
