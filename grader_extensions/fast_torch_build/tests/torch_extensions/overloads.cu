// extension: headers=light
// call: forward(float32[9], float32[9])
// call: forward(float32[9], 2.0)
// call: forward(float32[9])
// call: scale(float32[4], 3)
// call: scale(float32[4], 0.5)
// raises: forward("nothing")
// Functions of one name, told apart by their arguments.
#include <torch/extension.h>

__global__ void multiply(const float* a, const float* b, float factor, float* c, int n) {
    const int i = threadIdx.x;
    if (i < n) c[i] = a[i] * (b ? b[i] : factor);
}

torch::Tensor mul(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    multiply<<<1, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), 0.f, c.data_ptr<float>(), a.numel());
    return c;
}

torch::Tensor mul(torch::Tensor a, double b) {
    auto c = torch::empty_like(a);
    multiply<<<1, 32>>>(a.data_ptr<float>(), nullptr, b, c.data_ptr<float>(), a.numel());
    return c;
}

torch::Tensor mul(torch::Tensor a) { return mul(std::move(a), 1.5); }

torch::Tensor scale_by_int(torch::Tensor a, int64_t k) { return a * k + 1; }
torch::Tensor scale_by_double(torch::Tensor a, double k) { return a * k; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", py::overload_cast<torch::Tensor, torch::Tensor>(&mul), "a * b");
    m.def("forward", static_cast<torch::Tensor (*)(torch::Tensor, double)>(&mul), "a * number");
    m.def("forward", (torch::Tensor(*)(torch::Tensor)) & mul, "a * 1.5");
    m.def("scale", &scale_by_int);
    m.def("scale", &scale_by_double);
}
