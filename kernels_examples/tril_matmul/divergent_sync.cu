// expect: WRONG_ANSWER
// Threads above the diagonal skip the tile loop, and with it the barriers and their share of the loads that the other threads rely on.
#include <torch/extension.h>

#include <cuda_runtime.h>

#define TILE 16

__global__ void tril_matmul_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];

    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;

    // Only the lower triangle has anything to add up.
    const int tiles = row >= col ? (n + TILE - 1) / TILE : 0;

    float sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        const int k_a = t * TILE + threadIdx.x;
        const int k_b = t * TILE + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] = (row < n && k_a < n) ? a[row * n + k_a] : 0.0f;
        b_tile[threadIdx.y][threadIdx.x] = (k_b < n && col < n) ? b[k_b * n + col] : 0.0f;
        __syncthreads();

        for (int k = 0; k < TILE; ++k) {
            sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
        }
        __syncthreads();
    }

    if (row < n && col < n) {
        c[row * n + col] = sum;
    }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.is_cuda(), "inputs must be CUDA tensors");
    const int n = a.size(0);
    auto c = torch::empty_like(a);

    const dim3 block(TILE, TILE);
    const dim3 grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE);
    tril_matmul_kernel<<<grid, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    cudaDeviceSynchronize();
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "lower triangle of a @ b, tiled");
}
