// An inclusive scan: shuffles in the warp, shared memory between warps.
#include <cstdio>
__global__ void scan(const int* x, int* out) {
    __shared__ int sums[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, v = x[t];
    for (int d = 1; d < 32; d <<= 1) {
        int left = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += left;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int s = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int d = 1; d < 32; d <<= 1) {
            int left = __shfl_up_sync(0xffffffff, s, d);
            if (lane >= d) s += left;
        }
        sums[lane] = s;
    }
    __syncthreads();
    out[t] = v + (warp > 0 ? sums[warp - 1] : 0);
}
int main() {
    static int h[1024];
    int *x, *out, wrong = 0, sum = 0;
    for (int i = 0; i < 1024; ++i) h[i] = i % 13;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    scan<<<1, 1024>>>(x, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 1024; ++i) wrong += h[i] != (sum += i % 13);
    printf("%d wrong, last %d\n", wrong, h[1023]);
}
