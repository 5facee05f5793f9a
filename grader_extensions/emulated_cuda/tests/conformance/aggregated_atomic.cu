// Lanes that take the same branch elect one of them to add for all.
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
__global__ void keep_odd(const int* x, int* kept, int* count, int n) {
    int i = threadIdx.x;
    if (i < n && x[i] % 2) {
        unsigned mask = __activemask();
        int leader = __ffs(mask) - 1, lane = threadIdx.x % 32, base = 0;
        if (lane == leader) base = atomicAdd(&count[0], __popc(mask));
        base = __shfl_sync(mask, base, leader);
        kept[base + __popc(mask & ((1u << lane) - 1))] = x[i];
    }
    if (i < n && x[i] % 3 == 0) {
        cg::coalesced_group together = cg::coalesced_threads();
        if (together.thread_rank() == 0) atomicAdd(&count[1], (int)together.size());
    }
}
int main() {
    int h[100], *x, *kept, *count, counts[2], sum = 0;
    for (int i = 0; i < 100; ++i) h[i] = i * i + i / 3;
    cudaMalloc(&x, sizeof h), cudaMalloc(&kept, sizeof h), cudaMalloc(&count, sizeof counts);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(count, 0, sizeof counts);
    keep_odd<<<1, 128>>>(x, kept, count, 100);
    cudaMemcpy(h, kept, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(counts, count, sizeof counts, cudaMemcpyDeviceToHost);
    for (int i = 0; i < counts[0]; ++i) sum += h[i];
    printf("%d %d %d\n", counts[0], counts[1], sum);
}
