// What programs ask of a device before they launch.
#include <cstdio>
__global__ void kernel(int* x) { x[0] = 1; }
int main() {
    int count, device = -1, value, blocks = 0;
    cudaDeviceProp p;
    cudaGetDeviceCount(&count);
    cudaSetDevice(0);
    cudaGetDevice(&device);
    cudaGetDeviceProperties(&p, 0);
    cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0);
    printf("%d %d %d %d %d %d %zu %d\n", count > 0, device, p.warpSize, p.maxThreadsPerBlock, p.maxThreadsDim[2], p.maxGridSize[1], p.sharedMemPerBlock,
           p.multiProcessorCount > 0);
    printf("%d %d %d\n", value, blocks, p.major);
    printf("%s\n", cudaGetErrorName(cudaSetDevice(1000)));
}
