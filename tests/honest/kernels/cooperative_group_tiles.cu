// problem: total
// why: cooperative groups: a block in tiles of sixteen lanes, each reduced by the group's own shuffles
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cstdint>

#include <cuda_runtime.h>

namespace groups = cooperative_groups;

__global__ void add_up(const float* x, float* sum, int64_t n) {
    const groups::thread_block block = groups::this_thread_block();
    const auto tile = groups::tiled_partition<16>(block);
    __shared__ float tiles[8];
    float part = 0.0f;
    for (int64_t i = blockIdx.x * block.size() + block.thread_rank(); i < n; i += gridDim.x * block.size()) part += x[i];
    part = groups::reduce(tile, part, groups::plus<float>());
    if (tile.thread_rank() == 0) tiles[tile.meta_group_rank()] = part;
    block.sync();
    if (block.thread_rank() < 8) {
        const auto eight = groups::tiled_partition<8>(block);
        part = tiles[eight.thread_rank()];
        for (unsigned distance = 4; distance > 0; distance /= 2) part += eight.shfl_down(part, distance);
        if (eight.thread_rank() == 0) atomicAdd(sum, part);
    }
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) {
    cudaMemsetAsync(sum, 0, sizeof(float), stream);
    add_up<<<10, 128, 0, stream>>>(x, sum, n);
}
