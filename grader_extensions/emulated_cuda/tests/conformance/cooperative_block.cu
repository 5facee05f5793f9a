// cooperative_groups: the block and its tiles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
namespace cg = cooperative_groups;
template <typename Group>
__device__ int sum(Group g, int v) {
    for (int o = g.size() / 2; o > 0; o /= 2) v += g.shfl_down(v, o);
    return g.shfl(v, 0);
}
__global__ void groups(int* out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    auto warp = cg::tiled_partition<32>(block);
    __shared__ int box[64];
    int t = block.thread_rank();
    box[t] = sum(tile, t);
    block.sync();
    out[t * 4 + 0] = box[(t + 8) % 64];
    out[t * 4 + 1] = tile.thread_rank() * 100 + tile.meta_group_rank() * 10 + block.size() / 64;
    out[t * 4 + 2] = tile.ballot(t % 2) * 10 + tile.any(t == 9) + warp.all(t < 32) * 2;
    out[t * 4 + 3] = cg::reduce(warp, t, cg::plus<int>()) + cg::reduce(tile, t, cg::greater<int>());
}
int main() {
    int h[64 * 4], *out;
    cudaMalloc(&out, sizeof h);
    groups<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int t : {0, 9, 33, 63}) printf("%d %d %d %d\n", h[t * 4], h[t * 4 + 1], h[t * 4 + 2], h[t * 4 + 3]);
}
