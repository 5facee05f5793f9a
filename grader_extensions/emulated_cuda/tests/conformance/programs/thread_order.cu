// Kernels that are right in one order of threads only. Arguments: a kernel's number and an order; prints how many elements are wrong.
// The test writes a barrier for WAIT, and true for FIXED, for the same kernels put right.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define WAIT
constexpr bool FIXED = false;
constexpr int N = 128, BLOCKS = 3;
extern "C" uint64_t grader_thread_order;  // of the emulated device

// The first thread writes what all read.
__global__ void first_writes(const float* x, float* y) {
    __shared__ float all;
    if (threadIdx.x == 0) all = x[blockIdx.x];
    WAIT;
    y[blockIdx.x * N + threadIdx.x] = all + threadIdx.x;
}

// The first thread reads what the last has written.
__global__ void last_writes(const float* x, float* y) {
    __shared__ float last;
    if (threadIdx.x == N - 1) last = x[blockIdx.x];
    WAIT;
    y[blockIdx.x * N + threadIdx.x] = threadIdx.x == 0 ? last : 0.0f;
}

// Every element is replaced by the next one, which may be gone.
__global__ void shift(const float* x, float* y) {
    __shared__ float s[N];
    s[threadIdx.x] = x[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    float next = threadIdx.x < N - 1 ? s[threadIdx.x + 1] : 0.0f;
    WAIT;
    s[threadIdx.x] = next;
    __syncthreads();
    y[blockIdx.x * N + threadIdx.x] = s[threadIdx.x];
}

// Warps pass a sum on to the next one.
__global__ void warp_after_warp(const float* x, float* y) {
    __shared__ float sums[N / 32 + 1];
    if (threadIdx.x == 0) sums[0] = 0.0f;
    for (int warp = 0; warp < N / 32; ++warp) {
        WAIT;
        if (threadIdx.x == warp * 32) sums[warp + 1] = sums[warp] + x[blockIdx.x * N + threadIdx.x];
    }
    WAIT;
    y[blockIdx.x * N + threadIdx.x] = sums[threadIdx.x / 32 + 1];
}

// Two threads only.
__global__ void one_pair(const float* x, float* y) {
    __shared__ float s;
    if (threadIdx.x == 5) s = x[blockIdx.x];
    WAIT;
    y[blockIdx.x * N + threadIdx.x] = threadIdx.x == 70 ? s : 0.0f;
}

// The same through global memory, with no shared memory and no barrier.
__global__ void by_global_memory(const float* x, float* y) {
    float* own = y + blockIdx.x * N;
    if (threadIdx.x == 0) own[0] = x[blockIdx.x];
    WAIT;
    if (threadIdx.x > 0) own[threadIdx.x] = own[0];
}

// Blocks add to what the block before has left.
__global__ void block_after_block(const float* x, float* y) {
    for (int block = 0; block < BLOCKS; ++block)
        if (FIXED ? blockIdx.x == 0 : blockIdx.x == block)
            y[block * N + threadIdx.x] = x[threadIdx.x] + (block ? y[(block - 1) * N + threadIdx.x] : 0.0f);
}

float expected(int kernel, const float* x, int block, int thread) {
    const float* own = x + block * N;
    float sum = 0;
    switch (kernel) {
        case 0: return x[block] + thread;
        case 1: return thread == 0 ? x[block] : 0;
        case 2: return thread < N - 1 ? own[thread + 1] : 0;
        case 3:
            for (int i = 0; i <= thread / 32; ++i) sum += own[i * 32];
            return sum;
        case 4: return thread == 70 ? x[block] : 0;
        case 5: return x[block];
    }
    return x[thread] * (block + 1);
}

int main(int, char** words) {
    void (*kernels[])(const float*, float*) = {first_writes, last_writes, shift, warp_after_warp, one_pair, by_global_memory, block_after_block};
    int kernel = atoi(words[1]), wrong = 0;
    grader_thread_order = strtoull(words[2], nullptr, 10);
    std::vector<float> x(BLOCKS * N), y(BLOCKS * N);
    for (int i = 0; i < BLOCKS * N; ++i) x[i] = i * 7 % 13 + 1;
    float *device_x, *device_y;
    cudaMalloc(&device_x, sizeof(float) * BLOCKS * N);
    cudaMalloc(&device_y, sizeof(float) * BLOCKS * N);
    cudaMemcpy(device_x, x.data(), sizeof(float) * BLOCKS * N, cudaMemcpyHostToDevice);
    kernels[kernel]<<<BLOCKS, N>>>(device_x, device_y);
    cudaMemcpy(y.data(), device_y, sizeof(float) * BLOCKS * N, cudaMemcpyDeviceToHost);
    for (int i = 0; i < BLOCKS * N; ++i) wrong += y[i] != expected(kernel, x.data(), i / N, i % N);
    printf("%d", wrong);
}
