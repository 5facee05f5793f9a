// PyTorch's own product, called from an extension.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    return at::mm(a, b);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "a @ b");
}
