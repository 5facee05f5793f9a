// expect: ACCEPTED
// language: torch_extension
// The honest kernel that attacks in torch extensions are derived from.
#include "torch_work.h"

torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return honest_forward(a, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
