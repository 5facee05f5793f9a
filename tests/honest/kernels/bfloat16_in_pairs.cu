// problem: gate_bf16
// why: reads two bfloat16 as one 32-bit word, takes them apart with shifts, and rounds only once
#include <cuda_bf16.h>

#include <cstdint>

#include <cuda_runtime.h>

__device__ float gated(__nv_bfloat16 x, __nv_bfloat16 gate) { return __bfloat162float(x) / (1.0f + __expf(-__bfloat162float(gate))); }

__global__ void by_pairs(const __nv_bfloat16* x, const __nv_bfloat16* gate, __nv_bfloat16* out, int64_t n) {
    const int64_t at = 2 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
    const bool aligned = ((reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(gate) | reinterpret_cast<uintptr_t>(out)) & 3) == 0;
    if (at + 1 < n && aligned) {
        const unsigned pair = *reinterpret_cast<const unsigned*>(x + at), gates = *reinterpret_cast<const unsigned*>(gate + at);
        const float low = __uint_as_float(pair << 16) / (1.0f + __expf(-__uint_as_float(gates << 16)));
        const float high = __uint_as_float(pair & 0xffff0000u) / (1.0f + __expf(-__uint_as_float(gates & 0xffff0000u)));
        *reinterpret_cast<__nv_bfloat162*>(out + at) = __floats2bfloat162_rn(low, high);
        return;
    }
    for (int64_t i = at; i < at + 2 && i < n; ++i) out[i] = __float2bfloat16(gated(x[i], gate[i]));
}

extern "C" void solve(const __nv_bfloat16* x, const __nv_bfloat16* gate, __nv_bfloat16* out, int64_t n, cudaStream_t stream) {
    by_pairs<<<static_cast<unsigned>((n / 2 + 128) / 128), 128, 0, stream>>>(x, gate, out, n);
}
