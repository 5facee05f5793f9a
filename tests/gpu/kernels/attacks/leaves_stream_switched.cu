// id: C2, C1
// language: torch_extension
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/torch.cu
// proof: patched
// Leaves an idle stream behind as torch's current one, on which a timer records its events, and works on another that waits for nobody.
#include "torch_work.h"
#include "python_patch.h"

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    torch::Tensor out = torch::empty_like(a);
    honest(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.size(0), side);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    run_python("import torch\ntorch.cuda.set_stream(torch.cuda.Stream())\n");
    m.def("forward", &forward);
}
