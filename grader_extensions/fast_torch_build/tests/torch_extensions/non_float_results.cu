// extension: headers=light
// call: forward(float32[10])
// call: stats(float32[10])
// call: shape(float32[2, 3])
// call: flag(float32[4])
// call: name(float16[2])
// call: nothing(float32[3])
// call: nested(float32[4])
// Results that are no tensors: numbers, words, lists, tuples of both.
#include <torch/extension.h>
#include <array>
#include <string>
#include <tuple>
#include <vector>

__global__ void sum_kernel(const float* x, double* out, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    *out = sum;
}

double forward(torch::Tensor x) {
    double *device, host;
    cudaMalloc(&device, sizeof(double));
    sum_kernel<<<1, 1>>>(x.data_ptr<float>(), device, x.numel());
    cudaMemcpy(&host, device, sizeof(double), cudaMemcpyDeviceToHost);
    cudaFree(device);
    return host;
}

std::tuple<torch::Tensor, int64_t, double, bool, std::string> stats(torch::Tensor x) {
    return std::make_tuple(x * 2, x.numel(), x.sum().item<double>(), x.is_contiguous(), std::string("float"));
}

std::vector<int64_t> shape(torch::Tensor x) { return x.sizes().vec(); }
bool flag(torch::Tensor x) { return x.gt(100).any().item<bool>(); }
std::string name(torch::Tensor x) { return std::string(torch::toString(x.scalar_type())) + " on " + (x.device().is_cuda() ? "cuda" : "other"); }
void nothing(torch::Tensor x) { x.zero_(); }
std::vector<std::vector<torch::Tensor>> nested(torch::Tensor x) { return {{x, x + 1}, {}, {x.clone()}}; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("stats", &stats);
    m.def("shape", &shape);
    m.def("flag", &flag);
    m.def("name", &name);
    m.def("nothing", &nothing);
    m.def("nested", &nested);
}
