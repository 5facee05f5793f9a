// id: D2
// language: torch_extension
// cases: triad
// expect: ACCEPTED no gain | DISQUALIFIED | RUNTIME_ERROR
// from: originals/torch.cu
// proof: patched
// Replaces what sums up the samples: statistics.median and its kin, and torch's median, mean, quantile and min.
#include "torch_work.h"
#include "python_patch.h"

torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return honest_forward(a, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    run_python(
        "import statistics, torch\n"
        "for name in ('mean', 'fmean', 'median', 'median_low', 'median_high'):\n"
        "    setattr(statistics, name, lambda *values, **more: 0.001)\n"
        "statistics.quantiles = lambda *values, n=4, **more: [0.001] * (n - 1)\n"
        "for name in ('mean', 'median', 'min', 'quantile'):\n"
        "    setattr(torch, name, lambda *values, **more: torch.tensor(0.001))\n"
    );
    m.def("forward", &forward);
}
