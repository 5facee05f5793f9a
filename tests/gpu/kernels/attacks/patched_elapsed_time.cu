// id: D1
// language: torch_extension
// cases: triad CLAIM_MS=0.001; matmul CLAIM_MS=0.3
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/torch.cu
// proof: patched
// While the module is loaded, replaces torch.cuda.Event.elapsed_time: every launch took CLAIM_MS.
#include "parameters.h"
#include "torch_work.h"
#include "python_patch.h"

#define TEXT(value) #value
#define TEXT_OF(value) TEXT(value)

torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return honest_forward(a, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    run_python("import torch\ntorch.cuda.Event.elapsed_time = lambda self, other: " TEXT_OF(CLAIM_MS) "\n");
    m.def("forward", &forward);
}
