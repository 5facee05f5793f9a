// A product of 256 x 256 halves on tensor cores, checked against integers.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdio>
using namespace nvcuda;

constexpr int n = 256;

__global__ void multiply(const half* a, const half* b, float* c) {
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + column * n + k, n);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

int main() {
    half *a, *b;
    float* c;
    cudaMallocManaged(&a, n * n * sizeof(half));
    cudaMallocManaged(&b, n * n * sizeof(half));
    cudaMallocManaged(&c, n * n * sizeof(float));
    for (int i = 0; i < n * n; ++i) a[i] = half(float(i * 7 % 11 - 5)), b[i] = half(float(i * 5 % 13 - 6));
    multiply<<<dim3(n / 16, n / 16), 32>>>(a, b, c);
    cudaDeviceSynchronize();
    int wrong = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            int sum = 0;
            for (int k = 0; k < n; ++k) sum += ((i * n + k) * 7 % 11 - 5) * ((j * n + k) * 5 % 13 - 6);
            wrong += c[i * n + j] != float(sum);
        }
    printf("%d wrong\n", wrong);
}
