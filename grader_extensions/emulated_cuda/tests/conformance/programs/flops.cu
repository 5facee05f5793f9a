// Floating-point operations whose number is known.  A comment says of its line how many all threads execute.
#include <cuda_fp16.h>
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];  // flops 100
}
template <int tile>
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[tile][tile], right[tile][tile];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * tile + y, column = blockIdx.x * tile + x;
    float sum = 0;
    for (int first = 0; first < k; first += tile) {
        left[y][x] = a[row * k + first + x];
        right[y][x] = b[(first + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < tile; ++i) sum += left[y][i] * right[i][x];  // flops 4096
        __syncthreads();
    }
    c[row * n + column] = sum;
}
__global__ void operations(const float* a, float* c, double* d, float2* pairs, int* bits) {
    int t = threadIdx.x;
    c[t] = fmaf(a[0], a[1], a[2]);                  // flops 64
    c[t] = __fmaf_rn(a[0], a[1], a[2]);             // flops 64
    d[t] = fma(double(a[0]), 2.0, 3.0);             // flops 64
    c[t] = a[0] * a[1] + a[2];                      // flops 64
    c[t] = a[0] / a[1];                             // flops 32
    c[t] = __fdividef(a[0], a[1]);                  // flops 32
    c[t] = rsqrtf(a[0]);                            // flops 32
    c[t] = 1.0f / (1.0f + expf(-a[0]));             // flops 64
    d[t] = (d[t] - 1.5) * 2.5;                      // flops 64
    pairs[t] = make_float2(a[0] + 1.5f, a[1] * a[2]);  // flops 64
    bits[t] = __float_as_int(a[0] * a[1]);          // flops 32
    c[t] = __shfl_xor_sync(~0u, a[0] * 3.5f, 1);    // flops 32
    atomicAdd(c, a[0] * 4.5f);                      // flops 32
    c[t] = t % 2 ? a[0] * a[0] : a[1] - a[2] - a[3];  // flops 48
    if (t < 5 && a[t] * 2.5f < 1e9f) c[t] += 1;     // flops 10
    for (int i = 0; i < t; ++i) c[t] *= 1.5f;       // flops 496
    c[t] = fmaxf(sqrtf(a[0]), -a[1]);
    c[t] = static_cast<float>(static_cast<unsigned long long>(a[t])) + static_cast<float>(t);  // flops 32
    bits[t] = bits[t] * 3 + t / 7;
}
struct Complex {
    float re, im;
    __device__ Complex operator*(Complex o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }  // flops 192
};
__device__ __noinline__ float cube(float x) {
    return x * x * x;  // flops 64
}
__global__ void functions(const float* a, float* c) {
    Complex x{a[0], a[1]}, z{a[2], a[3]}, y = x * z;
    c[threadIdx.x] = cube(y.re) + y.im;  // flops 32
}
__global__ void halves(const half* a, half* c) {
    c[threadIdx.x] = __hfma(a[0], a[1], __hadd(a[2], a[3]));  // of half nothing is counted
    c[threadIdx.x] = __float2half(__half2float(a[0]) * 3.0f);  // flops 32
}
int main() {
    float *a, *c;
    double* d;
    float2* pairs;
    int* bits;
    half* small;
    cudaMalloc(&a, 4096), cudaMalloc(&c, 4096), cudaMalloc(&d, 4096), cudaMalloc(&pairs, 4096), cudaMalloc(&bits, 4096);
    cudaMalloc(&small, 4096);
    cudaMemset(a, 0, 4096), cudaMemset(d, 0, 4096), cudaMemset(bits, 0, 4096), cudaMemset(small, 0, 4096);
    add<<<2, 64>>>(a, a, c, 100);
    matmul<8><<<dim3(2, 1), dim3(8, 8)>>>(a, a, c, 8, 16, 16);
    operations<<<1, 32>>>(a, c, d, pairs, bits);
    functions<<<1, 32>>>(a, c);
    halves<<<1, 32>>>(small, small + 64);
    return cudaDeviceSynchronize();
}
