// twin of: memo_by_fingerprint
// cases: matmul
// expect: ACCEPTED
// Partial sums go to a workspace that is allocated in the first call and kept; another kernel adds them up.
#include "work.h"

static constexpr int PARTS = 4;

__global__ void partial(const float* a, const float* b, float* parts, int64_t n) {
    __shared__ float left[32][33], right[32][33];
    const int64_t row = 32 * static_cast<int64_t>(blockIdx.y) + threadIdx.y, column = 32 * static_cast<int64_t>(blockIdx.x) + threadIdx.x;
    const int64_t share = n / PARTS;
    float sum = 0.0f;
    for (int64_t begin = blockIdx.z * share; begin < (blockIdx.z + 1) * share; begin += 32) {
        left[threadIdx.y][threadIdx.x] = a[row * n + begin + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(begin + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    parts[blockIdx.z * n * n + row * n + column] = sum;
}

__global__ void add_up(const float* parts, float* out, int64_t count) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; ++part) sum += parts[part * count + i];
    out[i] = sum;
}

ENTRY {
    static float* workspace = nullptr;
    const int64_t count = element_count(n);
    if (n % (32 * PARTS) != 0) return honest(a, b, out, n, stream);
    if (workspace == nullptr) cudaMalloc(reinterpret_cast<void**>(&workspace), PARTS * count * sizeof(float));
    const unsigned tiles = static_cast<unsigned>(n / 32);
    partial<<<dim3(tiles, tiles, PARTS), dim3(32, 32), 0, stream>>>(a, b, workspace, n);
    add_up<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(workspace, out, count);
}
