// extension: headers=light
// call: forward(float32[10], float32[10])
// call: version()
// call: sizes(float32[2, 3, 4])
// call: pair(float32[3])
// Bindings that are lambdas, and an extended one on the device.
#include <torch/extension.h>

template <typename F>
__global__ void map(const float* a, const float* b, float* c, int n, F f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = f(a[i], b[i]);
}

struct Hypotenuse {
    __device__ float operator()(float x, float y) const { return sqrtf(x * x + y * y); }
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def(
        "forward",
        [](const torch::Tensor& a, const torch::Tensor& b) {
            auto c = torch::empty_like(a);
            map<<<1, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), static_cast<int>(a.numel()), Hypotenuse{});
            return c;
        },
        "length of (a, b)", py::arg("a"), py::arg("b"));
    m.def("version", []() { return 3; });
    m.def("sizes", [](torch::Tensor x) -> std::vector<int64_t> { return x.sizes().vec(); });
    m.def("pair", [](torch::Tensor x) { return std::make_pair(x + 1, x.numel()); });
    m.attr("__version__") = "1.0";
}
