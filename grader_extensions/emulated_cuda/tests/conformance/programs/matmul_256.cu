// The two products of 256 x 256 that the promise of speed is about.
#include <cstdio>
#include <vector>
#define TILE 16
__global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
__global__ void naive(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
int main(int count, char**) {
    const int n = 256;
    std::vector<float> h(n * n), right(n * n), out(n * n);
    float *a, *c, ms;
    cudaEvent_t start, stop;
    cudaEventCreate(&start), cudaEventCreate(&stop);
    for (int i = 0; i < n * n; ++i) h[i] = i % 7;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j) right[i * n + j] += h[i * n + k] * h[k * n + j];
    cudaMalloc(&a, n * n * 4), cudaMalloc(&c, n * n * 4);
    cudaMemcpy(a, h.data(), n * n * 4, cudaMemcpyHostToDevice);
    for (int which = 0; which < 2; ++which) {
        cudaEventRecord(start);
        if (which == 0)
            tiled<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(a, a, c, n);
        else
            naive<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, a, c, n);
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&ms, start, stop);
        cudaMemcpy(out.data(), c, n * n * 4, cudaMemcpyDeviceToHost);
        printf("%s %s\n", which ? "naive" : "tiled", out == right ? "ok" : "wrong");
        if (count > 1) printf("%.1f ms\n", ms);  // any argument asks for the times
    }
}
