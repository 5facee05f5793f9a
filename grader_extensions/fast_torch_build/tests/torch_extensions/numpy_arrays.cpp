// extension: headers=full
// call: forward(float32[5])
// numpy's arrays are pybind11's to make, in a header of their own.
#include <pybind11/numpy.h>
#include <torch/extension.h>

py::array_t<float> to_numpy(torch::Tensor x) {
    x = x.contiguous();
    return py::array_t<float>(x.numel(), x.data_ptr<float>());
}

std::vector<float> forward(torch::Tensor x) {
    auto values = to_numpy(x * 2);
    auto view = values.unchecked<1>();
    std::vector<float> result;
    for (py::ssize_t i = 0; i < view.shape(0); ++i) result.push_back(view(i));
    return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("to_numpy", &to_numpy);
}
