// problem: occupied_voxels
#include <cuda_runtime.h>

__global__ void count(const int* index, int* counts, int points) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < points && index[i] >= 0) atomicAdd(counts + index[i], 1);
}

extern "C" void solve(const int* index, int* counts, int points, int voxels, cudaStream_t stream) {
    cudaMemsetAsync(counts, 0, voxels * sizeof(int), stream);
    count<<<(points + 255) / 256, 256, 0, stream>>>(index, counts, points);
}
