// A lower-triangular product by tiles whose loop bounds differ per thread: threads meet barriers a different number of times.
#include <cmath>
#include <cstdio>
#include <vector>
#define TILE 16
__global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    if (row < n && column <= row) {
        for (int k = column / 4; k <= row; k += TILE) {
            as[threadIdx.y][threadIdx.x] = k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0;
            bs[threadIdx.y][threadIdx.x] = k + threadIdx.y < n ? b[(k + threadIdx.y) * n + column] : 0;
            __syncthreads();
            for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
            __syncthreads();
        }
        c[row * n + column] = sum;
    }
}
int main() {
    const int n = 100;
    std::vector<float> h(n * n), out(n * n);
    float *a, *c;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) h[i * n + j] = j <= i ? (i * 31 + j * 17) % 11 : 0;
    cudaMalloc(&a, n * n * 4), cudaMalloc(&c, n * n * 4);
    cudaMemcpy(a, h.data(), n * n * 4, cudaMemcpyHostToDevice);
    cudaMemset(c, 0, n * n * 4);
    product<<<dim3(7, 7), dim3(TILE, TILE)>>>(a, a, c, n);
    if (cudaDeviceSynchronize() != cudaSuccess) printf("failed\n");
    cudaMemcpy(out.data(), c, n * n * 4, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += h[i * n + k] * h[k * n + j];
            wrong += !(std::fabs(out[i * n + j] - sum) < 1e-3f);
        }
    printf(wrong ? "wrong\n" : "right\n");
}
