// problem: row_statistics
// why: mean and variance in one pass after Welford, merged between lanes, with three outputs of two types from one launch
#include <cstdint>

#include <cuda_runtime.h>

#include <cmath>

__global__ void statistics(const float* x, float* mean, float* variance, int64_t* place, int64_t cols) {
    const float* in = x + blockIdx.x * cols;
    float count = 0.0f, middle = 0.0f, spread = 0.0f, top = -INFINITY;
    long long where = 0;
    for (int64_t j = threadIdx.x; j < cols; j += 32) {
        const float value = in[j], before = value - middle;
        count += 1.0f;
        middle += before / count;
        spread += before * (value - middle);
        if (value > top) top = value, where = j;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const float count2 = __shfl_down_sync(~0u, count, distance), middle2 = __shfl_down_sync(~0u, middle, distance);
        const float spread2 = __shfl_down_sync(~0u, spread, distance), top2 = __shfl_down_sync(~0u, top, distance);
        const long long where2 = __shfl_down_sync(~0u, where, distance);
        if (count2 > 0.0f) {
            const float apart = middle2 - middle, both = count + count2;
            spread += spread2 + apart * apart * count * count2 / both;
            middle += apart * count2 / both;
            count = both;
        }
        if (top2 > top || (top2 == top && where2 < where)) top = top2, where = where2;
    }
    if (threadIdx.x != 0) return;
    mean[blockIdx.x] = middle;
    variance[blockIdx.x] = spread / count;
    place[blockIdx.x] = where;
}

extern "C" void solve(const float* x, float* mean, float* variance, int64_t* place, int64_t rows, int64_t cols, cudaStream_t stream) {
    statistics<<<static_cast<unsigned>(rows), 32, 0, stream>>>(x, mean, variance, place, cols);
}
