// Counts in shared memory, then added to the grid's.
#include <cstdio>
__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
int main() {
    const int n = 20000;
    static unsigned char h[n];
    unsigned bins[256], *d_bins;
    unsigned char* d;
    for (int i = 0; i < n; ++i) h[i] = (i * i) % 251;
    cudaMalloc(&d, n), cudaMalloc(&d_bins, sizeof bins);
    cudaMemcpy(d, h, n, cudaMemcpyHostToDevice);
    cudaMemset(d_bins, 0, sizeof bins);
    histogram<<<6, 128>>>(d, n, d_bins);
    cudaMemcpy(bins, d_bins, sizeof bins, cudaMemcpyDeviceToHost);
    unsigned total = 0;
    for (unsigned b : bins) total += b;
    printf("%u %u %u %u\n", bins[0], bins[1], bins[250], total);
}
