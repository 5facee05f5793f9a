// problem: rotary_in_place
// why: the second half of a pair is made of the first after that was changed
#include <cstdint>

#include <cuda_runtime.h>

__global__ void rotate(float* query, const float* cosine, const float* sine, int64_t heads, int64_t half, int64_t pairs) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    const int64_t angle = pair / (heads * half) * half + pair % half;
    float *const first = query + pair / half * 2 * half + pair % half, *const second = first + half;
    *first = *first * cosine[angle] - *second * sine[angle];
    *second = *second * cosine[angle] + *first * sine[angle];
}

extern "C" void solve(float* query, int heads, int half, const float* cosine, const float* sine, int tokens, cudaStream_t stream) {
    const int64_t pairs = static_cast<int64_t>(tokens) * heads * half;
    if (pairs > 0) rotate<<<static_cast<unsigned>((pairs + 63) / 64), 64, 0, stream>>>(query, cosine, sine, heads, half, pairs);
}
