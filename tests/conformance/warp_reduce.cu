// Sums of a warp by shuffles, then of the block through shared memory.
#include <cstdio>
#define FULL 0xffffffffu
__inline__ __device__ float warp_sum(float v) {
    for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_down_sync(FULL, v, o);
    return v;
}
__global__ void block_sum(const float* x, float* out, int n) {
    static __shared__ float part[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    v = warp_sum(v);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / warpSize ? part[lane] : 0;
    if (warp == 0) v = warp_sum(v);
    if (threadIdx.x == 0) atomicAdd(out, v);
}
int main() {
    const int n = 10000;
    static float h[n];
    float *x, *out, sum;
    for (int i = 0; i < n; ++i) h[i] = i % 10;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof(float));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof(float));
    block_sum<<<4, 256>>>(x, out, n);
    cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost);
    printf("%g\n", sum);
}
