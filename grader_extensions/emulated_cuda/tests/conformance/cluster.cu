// Thread block clusters and their distributed shared memory.
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(4, 1, 1) ring(int* out) {
    cg::cluster_group cluster = cg::this_cluster();
    __shared__ int box[32];
    int t = threadIdx.x;
    unsigned rank = cluster.block_rank();
    box[t] = blockIdx.x * 1000 + t;
    cluster.sync();
    int* next = cluster.map_shared_rank(box, (rank + 1) % cluster.num_blocks());
    int got = next[31 - t];
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(&box[0], 0), 1);
    cluster.sync();
    out[blockIdx.x * 32 + t] = got + (rank == 0 ? box[0] * 100000 : 0);
    if (t == 0)
        out[256 + blockIdx.x] = static_cast<int>(cluster.num_threads() * 1000 + cluster.dim_blocks().x * 100 + cluster.block_index().x * 10 +
                                                 cluster.thread_rank() / 32);
}
// The same histogram in parts that the blocks of a cluster own.
__global__ void histogram(const int* in, int* bins, int n, int each) {
    extern __shared__ int part[];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < each; i += blockDim.x) part[i] = 0;
    cluster.sync();
    int whole = static_cast<int>(cluster.num_threads()), first = blockIdx.x / cluster.num_blocks() * whole + static_cast<int>(cluster.thread_rank());
    for (int i = first; i < n; i += gridDim.x * blockDim.x) {
        int bin = in[i] % (each * static_cast<int>(cluster.num_blocks()));
        atomicAdd(cluster.map_shared_rank(part, bin / each) + bin % each, 1);
    }
    cluster.barrier_arrive();
    cluster.barrier_wait();
    for (int i = threadIdx.x; i < each; i += blockDim.x) atomicAdd(&bins[static_cast<int>(cluster.block_rank()) * each + i], part[i]);
}
__global__ void shape(int* out) {
    auto cluster = cg::this_cluster();
    __shared__ int number;
    if (threadIdx.x == 0) number = static_cast<int>(cluster.block_rank()) * 10;
    cluster.sync();
    int sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&number, r);
    int block = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) out[block] = sum * 100 + static_cast<int>(cluster.block_index().y * 10 + cluster.block_index().x);
    if (threadIdx.x == 0) out[16 + block] = static_cast<int>(cluster.query_shared_rank(cluster.map_shared_rank(&number, 1)));
    cluster.sync();
}
void show(const char* name, const int* d, int n) {
    static int h[1024];
    cudaMemcpy(h, d, n * sizeof(int), cudaMemcpyDeviceToHost);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 31 + static_cast<unsigned>(h[i]);
    printf("%s %08x:", name, sum);
    for (int i = 0; i < n && i < 8; ++i) printf(" %d", h[i]);
    printf(" ... %d\n", h[n - 1]);
}
int main() {
    int h[1000], *in, *out;
    for (int i = 0; i < 1000; ++i) h[i] = i * i;
    cudaMalloc(&in, sizeof h), cudaMalloc(&out, 4096);
    cudaMemset(out, 0, 4096);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    ring<<<8, 32>>>(out);
    show("ring", out, 256);
    show("ranks", out + 256, 8);
    cudaMemset(out, 0, 4096);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2];
    config.gridDim = dim3(4), config.blockDim = dim3(64), config.dynamicSmemBytes = 32 * sizeof(int);
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = 2, attributes[0].val.clusterDim.y = 1, attributes[0].val.clusterDim.z = 1;
    config.attrs = attributes, config.numAttrs = 1;
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, histogram, static_cast<const int*>(in), out, 1000, 32)));
    show("histogram", out, 64);
    config.gridDim = dim3(4, 4), config.blockDim = dim3(32), config.dynamicSmemBytes = 0;
    attributes[0].val.clusterDim.x = 2, attributes[0].val.clusterDim.y = 2;
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, shape, out)));
    show("shape", out, 32);
    config.gridDim = dim3(5, 4);
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, shape, out)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
