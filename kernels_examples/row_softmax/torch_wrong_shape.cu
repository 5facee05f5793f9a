// expect: WRONG_ANSWER WRONG_SHAPE
// The values are right, but they come back as one long vector instead of a matrix.
#include <torch/extension.h>

#include <cmath>
#include <cuda_runtime.h>

__global__ void softmax_kernel(const float* x, float* y, int rows, int cols) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < cols; ++j) top = fmaxf(top, x[row * cols + j]);
    for (int j = 0; j < cols; ++j) sum += expf(x[row * cols + j] - top);
    for (int j = 0; j < cols; ++j) y[row * cols + j] = expf(x[row * cols + j] - top) / sum;
}

torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty({x.numel()}, x.options());
    const int rows = x.size(0), cols = x.size(1);
    softmax_kernel<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "softmax of every row");
}
