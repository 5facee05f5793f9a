// problem: matmul_half
// why: writes a transposed and padded copy of an input to a workspace first, and reads only that
#include <cuda_fp16.h>

#include <cstdint>

#include <cuda_runtime.h>

static constexpr int TILE = 16;

__global__ void pack(const __half* b, __half* packed, int64_t n, int64_t k, int64_t pitch) {
    __shared__ __half tile[TILE][TILE + 1];
    const int64_t i = static_cast<int64_t>(blockIdx.y) * TILE, column = static_cast<int64_t>(blockIdx.x) * TILE;
    if (i + threadIdx.y < k && column + threadIdx.x < n) tile[threadIdx.y][threadIdx.x] = b[(i + threadIdx.y) * n + column + threadIdx.x];
    __syncthreads();
    if (column + threadIdx.y >= n || i + threadIdx.x >= pitch) return;
    packed[(column + threadIdx.y) * pitch + i + threadIdx.x] = i + threadIdx.x < k ? tile[threadIdx.x][threadIdx.y] : __float2half(0.0f);
}

__global__ void product(const __half* a, const __half* packed, __half* c, int64_t m, int64_t n, int64_t k, int64_t pitch) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (at >= m * n) return;
    float sum = 0.0f;
    for (int64_t i = lane; i < k; i += 32) sum += __half2float(a[at / n * k + i]) * __half2float(packed[at % n * pitch + i]);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[at] = __float2half(sum);
}

extern "C" void solve(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const int64_t pitch = (k + 7) / 8 * 8;
    __half* packed = nullptr;
    cudaMallocAsync(&packed, n * pitch * sizeof(__half), stream);
    const dim3 grid(static_cast<unsigned>((n + TILE - 1) / TILE), static_cast<unsigned>((pitch + TILE - 1) / TILE));
    pack<<<grid, dim3(TILE, TILE), 0, stream>>>(b, packed, n, k, pitch);
    product<<<static_cast<unsigned>((32 * m * n + 127) / 128), 128, 0, stream>>>(a, packed, c, m, n, k, pitch);
    cudaFreeAsync(packed, stream);
}
