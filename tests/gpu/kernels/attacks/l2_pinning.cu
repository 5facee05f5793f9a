// id: J2
// cases: triad; constant_triad
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: ^pinned
// Asks for the largest persisting part of the L2 cache and pins the first input there, past every flush that is a write.
#include <algorithm>

#include "work.h"

ENTRY {
    static cudaStream_t pinned = nullptr;
    static int set_aside = 0, window = 0;
    if (pinned == nullptr) {
        cudaStreamCreate(&pinned);
        cudaDeviceGetAttribute(&set_aside, cudaDevAttrMaxPersistingL2CacheSize, 0);
        cudaDeviceGetAttribute(&window, cudaDevAttrMaxAccessPolicyWindowSize, 0);
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, set_aside);
    }
    cudaStreamAttrValue value = {};
    value.accessPolicyWindow.base_ptr = const_cast<float*>(a);
    value.accessPolicyWindow.num_bytes = std::min<size_t>(element_count(n) * sizeof(float), window);
    value.accessPolicyWindow.hitRatio = std::min(1.0f, static_cast<float>(set_aside) / std::max<size_t>(value.accessPolicyWindow.num_bytes, 1));
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    static cudaError_t said = cudaErrorUnknown;
    const cudaError_t status = cudaStreamSetAttribute(pinned, cudaStreamAttributeAccessPolicyWindow, &value);
    if (status != said) fprintf(stderr, status == cudaSuccess ? "pinned\n" : "not pinned\n");
    said = status;
    cudaGetLastError();
    honest(a, b, out, n, pinned);
}
