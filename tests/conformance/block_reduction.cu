// The classic tree in shared memory, with an extern array sized by the launch.
#include <cstdio>
__global__ void total(const int* x, int* out, int n) {
    extern __shared__ int part[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
int main() {
    const int n = 1000;
    int h[n], *x, *out, sums[8];
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof sums);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    total<<<8, 128, 128 * sizeof(int)>>>(x, out, n);
    cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
    for (int s : sums) printf("%d ", s);
    printf("\n");
}
