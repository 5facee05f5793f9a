// A block a row: maximum, sum and division, through shared memory.
#include <cfloat>
#include <cstdio>
__global__ void softmax(const float* x, float* y, int n) {
    extern __shared__ float part[];
    const float* row = x + blockIdx.x * n;
    float top = -FLT_MAX, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
    part[threadIdx.x] = top;
    __syncthreads();
    for (int s = blockDim.x / 2; s; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
        __syncthreads();
    }
    top = part[0];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - top);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(row[i] - top) / part[0];
}
int main() {
    const int rows = 5, n = 77;
    float h[rows * n], *x, *y;
    for (int i = 0; i < rows * n; ++i) h[i] = (i * 7 % 23) * 0.1f;
    cudaMalloc(&x, sizeof h), cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    softmax<<<rows, 64, 64 * sizeof(float)>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += h[4 * n + i];
    printf("%.5f %.5f %.4f\n", h[0], h[4 * n + 76], sum);
}
