// Copies of rows, sets, pinned memory, attributes of pointers, and misuse that is refused.
#include <cstdio>
int main() {
    int h[6] = {1, 2, 3, 4, 5, 6}, back[6] = {}, *d, *pinned;
    size_t pitch;
    cudaMallocPitch((void**)&d, &pitch, 3 * sizeof(int), 2);
    cudaMemcpy2D(d, pitch, h, 3 * sizeof(int), 3 * sizeof(int), 2, cudaMemcpyHostToDevice);
    cudaMemcpy2D(back, 3 * sizeof(int), d, pitch, 3 * sizeof(int), 2, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", back[0], back[3], back[5]);
    cudaMallocHost(&pinned, sizeof h);
    cudaMemset(d, 0x01, 8);
    cudaMemcpy(pinned, d, 12, cudaMemcpyDefault);
    printf("%d %d %d\n", pinned[0], pinned[1], pinned[2]);
    cudaFreeHost(pinned);
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, d);
    printf("%d\n", attributes.type == cudaMemoryTypeDevice);
    printf("%s\n", cudaGetErrorName(cudaMemcpy(nullptr, h, 4, cudaMemcpyHostToDevice)));
    printf("%s\n", cudaGetErrorName(cudaFree(nullptr)));
    printf("%s\n", cudaGetErrorName(cudaMalloc(&d, (size_t)1 << 46)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
