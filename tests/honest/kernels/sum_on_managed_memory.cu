// problem: total
// why: the host reads back partial sums through managed memory, adds the last few itself and copies the answer to the device
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int BLOCKS = 16;

__global__ void add_up(const float* x, double* parts, int64_t n) {
    extern __shared__ double tree[];
    double part = 0.0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) part += x[i];
    tree[threadIdx.x] = part;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = tree[0];
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) {
    static double* parts = nullptr;
    if (parts == nullptr) cudaMallocManaged(&parts, BLOCKS * sizeof(double));
    add_up<<<BLOCKS, 64, 64 * sizeof(double), stream>>>(x, parts, n);
    cudaStreamSynchronize(stream);
    double total = 0.0;
    for (int block = 0; block < BLOCKS; ++block) total += parts[block];
    const auto rounded = static_cast<float>(total);
    cudaMemcpyAsync(sum, &rounded, sizeof rounded, cudaMemcpyHostToDevice, stream);
}
