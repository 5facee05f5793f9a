// problem: largest_of_rows
// why: an extension gets k as a number between its tensors
#include <torch/extension.h>

void forward(torch::Tensor x, int64_t k, torch::Tensor values, torch::Tensor places) {
    auto order = std::get<1>(x.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true)).narrow(-1, 0, k);
    places.copy_(order);
    values.copy_(x.gather(-1, order));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, py::arg("x"), py::arg("k"), py::arg("values"), py::arg("places"));
}
