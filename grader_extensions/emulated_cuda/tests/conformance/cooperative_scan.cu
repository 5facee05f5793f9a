// Running sums and other scans over tiles and coalesced groups; groups by label.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
namespace cg = cooperative_groups;
__global__ void scan(int* out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(block);
    int i = threadIdx.x, value = i * 7 % 11;
    auto largest = [](int a, int b) { return a < b ? b : a; };
    int* row = out + i;
    row[0 * 64] = cg::inclusive_scan(warp, value);
    row[1 * 64] = cg::exclusive_scan(warp, value);
    row[2 * 64] = cg::inclusive_scan(tile, value, largest);
    row[3 * 64] = cg::exclusive_scan(tile, value, largest);
    row[4 * 64] = cg::exclusive_scan(tile, 2.0f, cg::plus<float>());
    row[5 * 64] = -1;
    if (i % 3) row[5 * 64] = cg::inclusive_scan(cg::coalesced_threads(), value);
    auto alike = cg::labeled_partition(warp, i % 5);
    row[6 * 64] = 100 * alike.num_threads() + alike.thread_rank();
    row[7 * 64] = cg::exclusive_scan(alike, 1);
    auto half = cg::binary_partition(tile, value > 4);
    row[8 * 64] = 100 * half.num_threads() + half.thread_rank();
}
int main() {
    int* out;
    cudaMallocManaged(&out, 9 * 64 * sizeof *out);
    scan<<<1, 64>>>(out);
    cudaDeviceSynchronize();
    for (int row = 0; row < 9; ++row)
        for (int i = 0; i < 64; ++i) printf("%d%c", out[64 * row + i], i == 63 ? '\n' : ' ');
}
