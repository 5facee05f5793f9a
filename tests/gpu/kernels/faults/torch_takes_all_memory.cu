// id: M4
// language: torch_extension
// expect: MEMORY_LIMIT_EXCEEDED DEVICE_MEMORY
// Allocates tensors of 4 GiB until torch throws.
#include <vector>

#include <torch/extension.h>

#include "work.h"

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    std::vector<torch::Tensor> hoard;
    for (;;) hoard.push_back(torch::empty({int64_t{1} << 30}, a.options()));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
