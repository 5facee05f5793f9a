// Cooperative launches: every block of the grid meets the others.
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
__device__ int sums[64];
__global__ void rounds(int* x, int n, int* out) {
    cg::grid_group grid = cg::this_grid();
    __shared__ int box[64];
    for (int round = 0; round < 6; ++round) {
        int other = static_cast<int>((grid.thread_rank() * 7 + round * 64) % grid.size());
        int v = x[other];
        grid.sync();
        x[grid.thread_rank()] = v + round;
        grid.sync();
    }
    box[threadIdx.x] = x[grid.thread_rank()];
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int v : box) sum += v;
        sums[blockIdx.x] = sum;
    }
    cg::sync(grid);
    if (grid.thread_rank() < gridDim.x) out[grid.thread_rank()] = sums[gridDim.x - 1 - grid.thread_rank()] + box[0];
    if (grid.thread_rank() == 0)
        out[gridDim.x] = grid.is_valid() * 1000000 + static_cast<int>(grid.num_threads()) * 10 + static_cast<int>(grid.num_blocks());
}
__global__ void some_leave(int* out) {
    auto grid = cg::this_grid();
    auto token = grid.barrier_arrive();
    int own = static_cast<int>(grid.block_rank()) * 100;
    grid.barrier_wait(std::move(token));
    atomicAdd(out, own + 1);
    grid.sync();
    if (threadIdx.x == 0 && blockIdx.x == 0) out[1] = out[0] * 2;
}
__global__ void shape(int* out) {
    auto grid = cg::this_grid();
    extern __shared__ int dynamic[];
    dynamic[threadIdx.x] = static_cast<int>(grid.thread_rank());
    grid.sync();
    out[grid.thread_rank()] = dynamic[blockDim.x - 1 - threadIdx.x] + blockIdx.y * 1000 + static_cast<int>(grid.dim_blocks().x + grid.group_dim().y * 10);
}
void show(const char* name, const int* d, int n) {
    static int h[4096];
    cudaMemcpy(h, d, n * sizeof(int), cudaMemcpyDeviceToHost);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 31 + static_cast<unsigned>(h[i]);
    printf("%s %08x: %d %d ... %d\n", name, sum, h[0], h[1], h[n - 1]);
}
int main() {
    int blocks = 24, n = blocks * 64, *x, *out, h[24 * 64], device = 0, works = 0;
    cudaDeviceGetAttribute(&works, cudaDevAttrCooperativeLaunch, device);
    printf("cooperative %d\n", works);
    for (int i = 0; i < n; ++i) h[i] = i * 3;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    void* arguments[] = {&x, &n, &out};
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void*)rounds, dim3(blocks), dim3(64), arguments, 0, nullptr)));
    show("x", x, n);
    show("rounds", out, blocks + 1);
    cudaMemset(out, 0, 64);
    void* leave[] = {&out};
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((const void*)some_leave, dim3(16), dim3(96), leave, 0, stream)));
    cudaStreamSynchronize(stream);
    show("counted", out, 2);
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(shape, dim3(3, 2), dim3(32), leave, 256, stream)));
    cudaStreamSynchronize(stream);
    show("shape", out, 192);
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, rounds, 64, 0);
    printf("occupancy %d\n", each > 0);
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void*)rounds, dim3(1000000), dim3(64), arguments, 0, nullptr)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
