// Shared-memory tiles with two barriers a step, as a template of the tile's size.
#include <cstdio>
template <int T>
__global__ void __launch_bounds__(T* T) matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float as[T][T + 1], bs[T][T];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int step = 0; step < (n + T - 1) / T; ++step) {
        int k = step * T;
        as[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0;
        bs[threadIdx.y][threadIdx.x] = column < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < T; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
template <int T>
void check(const float* a, const float* b, float* c, int n) {
    static float h[70 * 70];
    dim3 block(T, T), grid((n + T - 1) / T, (n + T - 1) / T);
    matmul<T><<<grid, block>>>(a, b, c, n);
    cudaMemcpy(h, c, n * n * sizeof(float), cudaMemcpyDeviceToHost);
    long wrong = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += (float)((i * n + k) % 7) * ((k * n + j) % 7);
            wrong += sum != h[i * n + j];
        }
    printf("tile %d: %ld wrong\n", T, wrong);
}
int main() {
    const int n = 70;
    static float h[n * n];
    float *a, *c;
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&c, sizeof h);
    for (int i = 0; i < n * n; ++i) h[i] = i % 7;
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    check<8>(a, a, c, n);
    check<16>(a, a, c, n);
    check<32>(a, a, c, n);
}
