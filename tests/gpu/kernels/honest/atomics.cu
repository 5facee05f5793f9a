// twin of: replay_output
// cases: matmul
// expect: ACCEPTED
// Four blocks share a tile of the output, each a quarter of the sum, and add with atomics: the order, and the last bit, differ from run to run.
#include "work.h"

__global__ void add_quarter(const float* a, const float* b, float* out, int64_t n) {
    __shared__ float left[32][33], right[32][33];
    const int64_t row = 32 * static_cast<int64_t>(blockIdx.y) + threadIdx.y, column = 32 * static_cast<int64_t>(blockIdx.x) + threadIdx.x;
    const int64_t share = n / gridDim.z;
    float sum = 0.0f;
    for (int64_t begin = blockIdx.z * share; begin < (blockIdx.z + 1) * share; begin += 32) {
        left[threadIdx.y][threadIdx.x] = a[row * n + begin + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(begin + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    atomicAdd(out + row * n + column, sum);
}

ENTRY {
    if (n % 128 != 0) return honest(a, b, out, n, stream);
    cudaMemsetAsync(out, 0, element_count(n) * sizeof(float), stream);
    const unsigned tiles = static_cast<unsigned>(n / 32);
    add_quarter<<<dim3(tiles, tiles, 4), dim3(32, 32), 0, stream>>>(a, b, out, n);
}
