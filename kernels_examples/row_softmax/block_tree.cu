// expect: ACCEPTED
// A block takes a row and reduces it as a tree in dynamic shared memory, with a barrier after every level.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

__global__ void softmax(const float* x, float* y, int64_t cols) {
    extern __shared__ float tree[];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY;
    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) top = fmaxf(top, in[j]);
    tree[threadIdx.x] = top;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] = fmaxf(tree[threadIdx.x], tree[threadIdx.x + half]);
        __syncthreads();
    }
    top = tree[0];
    __syncthreads();  // everyone has read the maximum before the tree is used again

    float sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) sum += expf(in[j] - top);
    tree[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    sum = tree[0];

    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) out[j] = expf(in[j] - top) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    const unsigned threads = 128;
    softmax<<<rows, threads, threads * sizeof(float), stream>>>(x, y, cols);
}
