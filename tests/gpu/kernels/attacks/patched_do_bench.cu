// id: D1
// language: torch_extension
// cases: triad CLAIM_MS=0.001; matmul CLAIM_MS=0.3
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/torch.cu
// proof: patched
// Replaces triton.testing.do_bench wherever a loaded module has it, and the runner's own method around it: every launch took CLAIM_MS.
#include "parameters.h"
#include "torch_work.h"
#include "python_patch.h"

#define TEXT(value) #value
#define TEXT_OF(value) TEXT(value)

torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return honest_forward(a, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    run_python(
        "import sys\n"
        "import triton.testing\n"
        "claim_ms = " TEXT_OF(CLAIM_MS) "\n"
        "def do_bench(fn, *rest, quantiles=None, return_mode='mean', **more):\n"
        "    fn()\n"
        "    if quantiles is not None:\n"
        "        return [claim_ms] * len(quantiles)\n"
        "    return [claim_ms] * 50 if return_mode == 'all' else claim_ms\n"
        "def method(self, run, *rest, **more):\n"
        "    run()\n"
        "    return (int(claim_ms * 1e6),) * 50\n"
        "for module in list(sys.modules.values()):\n"
        "    if 'do_bench' in getattr(module, '__dict__', {}):\n"
        "        module.do_bench = do_bench\n"
        "    device = getattr(module, '__dict__', {}).get('CudaDevice')\n"
        "    if device is not None:\n"
        "        device.do_bench = method\n"
    );
    m.def("forward", &forward);
}
