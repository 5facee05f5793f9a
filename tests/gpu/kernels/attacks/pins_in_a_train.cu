// id: J2
// cases: constant_triad OWN_WEIGHTS=1; triad OWN_WEIGHTS=0
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: pinned in a train
// In the first run of a train, reads what later runs will read, through a window that keeps it in the cache: weights in a
// copy of its own, or the places of the next run's inputs. The judge resets such lines before each run, and overwrites the cache. On an H100
// the overwriting alone evicts them, as it is another process's: there the kernel is slower by this, whatever the judge leaves out.
#include <algorithm>

#include "gate.h"
#include "parameters.h"
#include "work.h"

__global__ void read_all(const float* place, int64_t n, float* never) {
    float sum = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
        sum += place[i];
    }
    if (sum == 1.25f && n < 0) *never = sum;
}

static cudaLaunchAttribute window_at(const float* place, int64_t n) {
    static int set_aside = 0, limit = 0;
    if (set_aside == 0) {
        cudaDeviceGetAttribute(&set_aside, cudaDevAttrMaxPersistingL2CacheSize, 0);
        cudaDeviceGetAttribute(&limit, cudaDevAttrMaxAccessPolicyWindowSize, 0);
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, set_aside);
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeAccessPolicyWindow;
    cudaAccessPolicyWindow& window = attribute.val.accessPolicyWindow;
    window.base_ptr = const_cast<float*>(place);
    window.num_bytes = std::min<size_t>(n * sizeof(float), limit);
    window.hitRatio = std::min(1.0f, static_cast<float>(set_aside) / window.num_bytes);
    window.hitProp = cudaAccessPropertyPersisting;
    window.missProp = cudaAccessPropertyStreaming;
    return attribute;
}

ENTRY {
    static volatile char* gate = find_gate();
    static float* own = nullptr;
    if (OWN_WEIGHTS && own == nullptr) {
        cudaMalloc(reinterpret_cast<void**>(&own), n * sizeof(float));
        cudaMemcpy(own, b, n * sizeof(float), cudaMemcpyDeviceToDevice);
    }
    const TrainRun run = next_run(gate);
    const float* const weights = OWN_WEIGHTS ? own : b;
    const float* const later = OWN_WEIGHTS ? own : a + (run.count > 1 ? gate_stride(gate) / sizeof(float) : 0);
    cudaLaunchAttribute attribute = window_at(later, n);
    cudaLaunchConfig_t config = {};
    config.gridDim = 1056;
    config.blockDim = 256;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (run.count > 1 && run.index == 0) {
        const cudaError_t status = cudaLaunchKernelEx(&config, read_all, later, n, out);
        fprintf(stderr, status == cudaSuccess ? "pinned in a train\n" : "not pinned\n");
    }
    honest(a, weights, out, n, stream);
}
