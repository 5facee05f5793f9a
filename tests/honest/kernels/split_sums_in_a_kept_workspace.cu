// problem: matmul
// why: two kernels one after the other, with a workspace between them that is allocated once, grows, and is never freed
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int PARTS = 4;

__global__ void partial(const float* a, const float* b, float* parts, int64_t m, int64_t n, int64_t k) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    float sum = 0.0f;
    for (int64_t i = blockIdx.y; i < k; i += PARTS) sum += a[at / n * k + i] * b[i * n + at % n];
    parts[blockIdx.y * m * n + at] = sum;
}

__global__ void add_up(const float* parts, float* c, int64_t count) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; ++part) sum += parts[part * count + at];
    c[at] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    static float* workspace = nullptr;
    static int64_t capacity = 0;
    if (PARTS * m * n > capacity) {
        cudaFree(workspace);
        capacity = PARTS * m * n;
        cudaMalloc(&workspace, capacity * sizeof(float));
    }
    const auto blocks = static_cast<unsigned>((m * n + 127) / 128);
    partial<<<dim3(blocks, PARTS), 128, 0, stream>>>(a, b, workspace, m, n, k);
    add_up<<<blocks, 128, 0, stream>>>(workspace, c, m * n);
}
