// CUB inside a block and a warp: reduce, scan, sort, load and store, exchange.
#include <cub/cub.cuh>
#include <cstdio>
struct Longest {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Least {
    __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};
__global__ void reduce(int* out) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Raking = cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING>;
    __shared__ union { typename Reduce::TempStorage reduce; typename Raking::TempStorage raking; } box;
    int t = threadIdx.x, v = (t * 37 + 11) % 101, items[3] = {t, t * t, -t};
    int results[5];
    results[0] = Reduce(box.reduce).Sum(v);
    __syncthreads();
    results[1] = Reduce(box.reduce).Reduce(v, Longest());
    __syncthreads();
    results[2] = Reduce(box.reduce).Sum(items);
    __syncthreads();
    results[3] = Raking(box.raking).Sum(v, 77);
    __syncthreads();
    results[4] = Raking(box.raking).Reduce(v, [](int a, int b) { return a ^ b; });
    if (t == 0) for (int i = 0; i < 5; ++i) out[i] = results[i];
}
__global__ void scan(int* out) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage box;
    int t = threadIdx.x, v = t % 7 + 1, exclusive, inclusive, total, largest, items[2] = {t, 1}, sums[2];
    Scan(box).ExclusiveSum(v, exclusive, total);
    __syncthreads();
    Scan(box).InclusiveSum(v, inclusive);
    __syncthreads();
    Scan(box).InclusiveScan((t * 29) % 64, largest, Longest());
    __syncthreads();
    int before;
    Scan(box).ExclusiveScan(v, before, 100, Longest());
    __syncthreads();
    Scan(box).ExclusiveSum(items, sums);
    out[t] = exclusive + 2 * inclusive + 3 * total + 5 * largest + 7 * before + 11 * sums[0] + 13 * sums[1];
}
__global__ void sort(const int* in, int* out, int n) {
    using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<int, 64, 4>;
    using Pairs = cub::BlockRadixSort<float, 64, 4, int>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Sort::TempStorage sort;
        typename Pairs::TempStorage pairs;
    } box;
    int keys[4], values[4];
    float numbers[4];
    Load(box.load).Load(in, keys, n, 1000000);
    __syncthreads();
    Sort(box.sort).Sort(keys);
    __syncthreads();
    for (int i = 0; i < 4; ++i) values[i] = keys[i], numbers[i] = keys[i] % 2 ? -0.5f * keys[i] : 0.25f * keys[i];
    Pairs(box.pairs).SortDescending(numbers, values);
    __syncthreads();
    Store(box.store).Store(out, keys);
    __syncthreads();
    Store(box.store).Store(out + 256, values, n);
}
__global__ void sort_digits(int* out) {
    using Sort = cub::BlockRadixSort<unsigned, 32, 2>;
    __shared__ typename Sort::TempStorage box;
    unsigned keys[2] = {threadIdx.x * 2654435761u, threadIdx.x * 40503u + 17};
    Sort(box).SortBlockedToStriped(keys, 4, 12);
    out[threadIdx.x] = keys[0] >> 4 & 255;
    out[32 + threadIdx.x] = keys[1] >> 4 & 255;
}
__global__ void exchange(int* out) {
    using Exchange = cub::BlockExchange<int, 64, 3>;
    __shared__ typename Exchange::TempStorage box;
    int items[3];
    for (int i = 0; i < 3; ++i) items[i] = threadIdx.x * 3 + i;
    Exchange(box).BlockedToStriped(items, items);
    for (int i = 0; i < 3; ++i) out[i * 64 + threadIdx.x] = items[i];
    __syncthreads();
    Exchange(box).StripedToBlocked(items, items);
    for (int i = 0; i < 3; ++i) out[192 + i * 64 + threadIdx.x] = items[i];
}
__global__ void warps(int* out) {
    using Reduce = cub::WarpReduce<int>;
    using Eight = cub::WarpReduce<int, 8>;
    using Scan = cub::WarpScan<int>;
    __shared__ typename Reduce::TempStorage reduce[2];
    __shared__ typename Eight::TempStorage eight[8];
    __shared__ typename Scan::TempStorage scan[2];
    int t = threadIdx.x, w = t / 32, v = (t * 13) % 31, sum, before, total, first, longest;
    sum = Reduce(reduce[w]).Sum(v);
    int part = Reduce(reduce[w]).Sum(v, 20);
    int least = Eight(eight[t / 8]).Reduce(v, Least());
    Scan(scan[w]).ExclusiveSum(v, before, total);
    Scan(scan[w]).InclusiveSum(v, first);
    Scan(scan[w]).InclusiveScan(v, longest, Longest());
    out[t] = before + total * 3 + first * 5 + longest * 7 + (t % 32 == 0 ? sum * 11 + part * 13 : 0) + (t % 8 == 0 ? least * 17 : 0);
    out[64 + t] = cub::ShuffleIndex<32>(v, 5, 0xffffffffu) + (threadIdx.x % 32) * 2;
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
    int h[256], *in, *out;
    for (int i = 0; i < 256; ++i) h[i] = (i * 7919 + 13) % 1009 - 400;
    cudaMalloc(&in, sizeof h), cudaMalloc(&out, 4096);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, 4096);
    reduce<<<1, 128>>>(out);
    show("reduce", out, 5);
    scan<<<1, 128>>>(out);
    show("scan", out, 128);
    cudaMemset(out, 0, 4096);
    sort<<<1, 64>>>(in, out, 250);
    show("sort", out, 256);
    show("pairs", out + 256, 256);
    sort_digits<<<1, 32>>>(out);
    show("digits", out, 64);
    exchange<<<1, 64>>>(out);
    show("striped", out, 192);
    show("blocked", out + 192, 192);
    warps<<<1, 64>>>(out);
    show("warps", out, 64);
    show("shuffle", out + 64, 64);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
