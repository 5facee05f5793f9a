// extension: headers=light
// call: forward(float32[9, 12], int64[9] % 12)
// call: forward(float32[4, 3], int64[4] % 3, "sum")
// call: forward(float32[4, 3], int64[4] % 3, "none")
// raises: forward(float32[4, 3], int64[4] % 3, "median")
// A loss of every row by a kernel, reduced as the caller says.
#include <torch/extension.h>
#include <string>

__global__ void cross_entropy_kernel(const float* __restrict__ logits, const int64_t* __restrict__ labels, float* __restrict__ losses, int rows, int classes) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* x = logits + row * classes;
    float top = x[0];
    for (int j = 1; j < classes; ++j) top = max(top, x[j]);
    float sum = 0.0f;
    for (int j = 0; j < classes; ++j) sum += expf(x[j] - top);
    losses[row] = logf(sum) + top - x[labels[row]];
}

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor labels, std::string reduction) {
    logits = logits.contiguous();
    labels = labels.contiguous();
    const int rows = logits.size(0);
    auto losses = torch::empty({rows}, logits.options());
    cross_entropy_kernel<<<(rows + 31) / 32, 32>>>(logits.data_ptr<float>(), labels.data_ptr<int64_t>(), losses.data_ptr<float>(), rows, logits.size(1));
    if (reduction == "mean") return losses.mean();
    if (reduction == "sum") return losses.sum();
    TORCH_CHECK(reduction == "none", "unknown reduction '", reduction, "'");
    return losses;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &cross_entropy, py::arg("logits"), py::arg("labels"), py::arg("reduction") = std::string("mean"));
}
