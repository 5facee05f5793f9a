// extension: headers=light
// call: forward(float32[4, 4], float32[4, 4])
// raises: forward(float32[4, 4], float32[4])
// raises: forward(float32[4, 4, 4], float32[4, 4])
// raises: forward(float32[4, 4], float64[4, 4])
// raises: index_error(float32[3], 5)
// raises: not_implemented(float32[3])
// raises: std_errors("out_of_range")
// raises: std_errors("logic")
// raises: std_errors("bad_alloc")
// raises: item_of_many(float32[3])
// raises: wrong_pointer(float32[3])
// Exceptions of every kind must reach Python as the same type with the same words.
#include <torch/extension.h>
#include <new>
#include <stdexcept>

__global__ void noop(float* x) { if (threadIdx.x == 0) x[0] += 0.0f; }

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK_VALUE(a.dim() <= 2, "strides ", a.strides(), " and ", a.stride(0));
    TORCH_CHECK(a.dtype() == b.dtype(), "dtypes differ: ", a.dtype(), " and ", b.dtype());
    TORCH_CHECK(a.sizes() == b.sizes(), "sizes must match, but a is ", a.sizes(), " and b is ", b.sizes(), " (", a.numel(), " and ", b.numel(), ")");
    noop<<<1, 1>>>(a.data_ptr<float>());
    return a + b;
}

int64_t index_error(torch::Tensor x, int64_t index) {
    TORCH_CHECK_INDEX(index < x.numel(), "index ", index, " is out of range for ", x.numel());
    return index;
}

void not_implemented(torch::Tensor x) { TORCH_CHECK_NOT_IMPLEMENTED(x.dim() > 3, "only for more than three dimensions"); }

void std_errors(const std::string& kind) {
    if (kind == "out_of_range") throw std::out_of_range("too far");
    if (kind == "logic") throw std::logic_error("not logical");
    if (kind == "bad_alloc") throw std::bad_alloc();
}

float item_of_many(torch::Tensor x) { return x.item<float>(); }
float wrong_pointer(torch::Tensor x) { return static_cast<float>(*x.data_ptr<int>()); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("index_error", &index_error);
    m.def("not_implemented", &not_implemented);
    m.def("std_errors", &std_errors);
    m.def("item_of_many", &item_of_many);
    m.def("wrong_pointer", &wrong_pointer);
}
