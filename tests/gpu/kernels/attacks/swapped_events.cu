// id: D5
// language: torch_extension
// cases: matmul
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/torch.cu
// proof: patched
// Whoever records an end event records the start event once more, right before it: the time between them is that of nothing.
#include "torch_work.h"
#include "python_patch.h"

torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return honest_forward(a, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    run_python(
        "import torch\n"
        "real = torch.cuda.Event.record\n"
        "start = []\n"
        "def record(self, *stream, **more):\n"
        "    if start and start[0] is not self:\n"
        "        real(start.pop(), *stream, **more)\n"
        "    else:\n"
        "        start[:] = [self]\n"
        "    return real(self, *stream, **more)\n"
        "torch.cuda.Event.record = record\n"
    );
    m.def("forward", &forward);
}
