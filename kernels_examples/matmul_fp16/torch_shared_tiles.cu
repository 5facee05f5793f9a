// expect: ACCEPTED
// The tiles stay half in shared memory, which halves what is read from there; products and sums are float.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, PATCH = TILE / SIDE;

__global__ void __launch_bounds__(SIDE * SIDE)
matmul_kernel(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int64_t m, int64_t n, int64_t k) {
    __shared__ __half a_tile[TILE][DEPTH + 2];
    __shared__ __half b_tile[DEPTH][TILE];
    const int x = threadIdx.x, y = threadIdx.y, thread = y * SIDE + x;
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * TILE, first_col = static_cast<int64_t>(blockIdx.x) * TILE;
    const __half zero = __float2half(0.0f);

    float sums[PATCH][PATCH] = {};
    for (int64_t start = 0; start < k; start += DEPTH) {
        #pragma unroll
        for (int i = thread; i < TILE * DEPTH; i += SIDE * SIDE) {
            const int64_t row = first_row + i / DEPTH, a_k = start + i % DEPTH;
            a_tile[i / DEPTH][i % DEPTH] = row < m && a_k < k ? a[row * k + a_k] : zero;
            const int64_t col = first_col + i % TILE, b_k = start + i / TILE;
            b_tile[i / TILE][i % TILE] = col < n && b_k < k ? b[b_k * n + col] : zero;
        }
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            float left[PATCH], right[PATCH];
            #pragma unroll
            for (int i = 0; i < PATCH; ++i) {
                left[i] = __half2float(a_tile[y + i * SIDE][step]);
                right[i] = __half2float(b_tile[step][x + i * SIDE]);
            }
            #pragma unroll
            for (int i = 0; i < PATCH; ++i) {
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sums[i][j] += left[i] * right[j];
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < PATCH; ++i) {
        for (int j = 0; j < PATCH; ++j) {
            const int64_t row = first_row + y + i * SIDE, col = first_col + x + j * SIDE;
            if (row < m && col < n) c[row * n + col] = __float2half(sums[i][j]);
        }
    }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.scalar_type() == torch::kFloat16 && b.scalar_type() == torch::kFloat16, "a and b must be float16");
    a = a.contiguous();
    b = b.contiguous();
    const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
    auto c = torch::empty({m, n}, a.options());
    const dim3 tiles((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul_kernel<<<tiles, dim3(SIDE, SIDE), 0, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __half*>(a.data_ptr<at::Half>()),
        reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
        reinterpret_cast<__half*>(c.data_ptr<at::Half>()),
        m, n, k);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "a @ b");
}
