// Dynamic shared memory with an alignment, carved into arrays of several types, and declared twice in one kernel.
#include <cstdio>
__global__ void carve(double* out, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    double* d = reinterpret_cast<double*>(raw);
    int* i = reinterpret_cast<int*>(raw + n * sizeof(double));
    d[threadIdx.x] = threadIdx.x * 0.5;
    i[threadIdx.x] = n - threadIdx.x;
    __syncthreads();
    int other = n - 1 - threadIdx.x;
    out[threadIdx.x] = d[other] + i[other];
}
template <typename T>
__device__ T* scratch() {
    extern __shared__ float4 pool[];
    return reinterpret_cast<T*>(pool);
}
__global__ void through_function(double* out) {
    float* s = scratch<float>();
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}
int main() {
    double h[64], *out;
    cudaMalloc(&out, sizeof h);
    carve<<<1, 64, 64 * (sizeof(double) + sizeof(int))>>>(out, 64);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", h[0], h[1], h[63]);
    through_function<<<1, 64, 64 * sizeof(float)>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", h[0], h[1], h[63]);
}
