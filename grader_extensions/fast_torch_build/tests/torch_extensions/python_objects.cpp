// extension: headers=full
// call: forward(float32[4])
// Python's own containers in C++ are pybind11's to make.
#include <torch/extension.h>

py::dict forward(torch::Tensor x) {
    py::dict result;
    result["sum"] = x.sum();
    result["parts"] = py::list(py::make_tuple(x.size(0), "one"));
    return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
