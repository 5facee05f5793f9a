// id: J2
// cases: constant_triad OWN_WEIGHTS=0; constant_triad OWN_WEIGHTS=1
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// Loads with a hint that lines leave the L2 cache last, so that they outlive a flush by writes: of inputs at their places, or of weights
// in a copy of its own. A sketch on an H200 took 18.6 us with the hint and without.
#include "parameters.h"
#include "work.h"

__device__ float4 load_to_stay(const float* place) {
    uint64_t policy;
    float4 value;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(place), "l"(policy)
                 : "memory");
    return value;
}

__global__ void hinted(const float* a, const float* b, float* out, int64_t n) {
    const int64_t i = 4 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const float4 x = OWN_WEIGHTS ? *reinterpret_cast<const float4*>(a + i) : load_to_stay(a + i), y = load_to_stay(b + i);
    __stcs(reinterpret_cast<float4*>(out + i), make_float4(2.0f * x.x + y.x, 2.0f * x.y + y.y, 2.0f * x.z + y.z, 2.0f * x.w + y.w));
}

ENTRY {
    static float* own = nullptr;
    if (OWN_WEIGHTS && own == nullptr) {
        cudaMalloc(reinterpret_cast<void**>(&own), n * sizeof(float));
        cudaMemcpyAsync(own, b, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    }
    hinted<<<static_cast<unsigned>((n / 4 + 255) / 256), 256, 0, stream>>>(a, OWN_WEIGHTS ? own : b, out, n);
}
