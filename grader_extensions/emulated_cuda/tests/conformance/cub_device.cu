// CUB over the whole device: the first call asks for the temporary storage, the second works.
#include <cub/cub.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cstdio>
#include <vector>
struct Odd {
    __host__ __device__ bool operator()(int v) const { return v % 2 != 0; }
};
struct Longest {
    __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Square {
    __host__ __device__ int operator()(int v) const { return v * v; }
};
template <typename F>
void twice(F call) {
    void* storage = nullptr;
    size_t bytes = 0;
    cudaError_t first = call(storage, bytes);
    cudaMalloc(&storage, bytes);
    cudaError_t second = call(storage, bytes);
    if (first != cudaSuccess || second != cudaSuccess || bytes == 0) printf("failed %d %d\n", first, second);
    cudaFree(storage);
}
template <typename T>
void show(const char* name, const T* d, int n) {
    std::vector<T> h(n);
    cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 31 + static_cast<unsigned>(static_cast<int>(h[i]));
    printf("%s %08x:", name, sum);
    for (int i = 0; i < n && i < 6; ++i) printf(" %g", static_cast<double>(h[i]));
    printf("\n");
}
int main() {
    assert(std::chrono::nanoseconds(1).count() == 1);  // which the toolkit's header brings
    const int n = 5000;
    std::vector<int> h(n);
    for (int i = 0; i < n; ++i) h[i] = static_cast<int>((i * 7919ll + 13) % 1009) - 400;
    int *in, *out, *values, *count, *offsets;
    float *keys, *sorted;
    cudaMalloc(&in, n * 4), cudaMalloc(&out, n * 4), cudaMalloc(&values, n * 4), cudaMalloc(&count, 64), cudaMalloc(&offsets, 64);
    cudaMalloc(&keys, n * 4), cudaMalloc(&sorted, n * 4);
    cudaMemcpy(in, h.data(), n * 4, cudaMemcpyHostToDevice);
    std::vector<float> f(n);
    for (int i = 0; i < n; ++i) f[i] = h[i] * 0.125f;
    cudaMemcpy(keys, f.data(), n * 4, cudaMemcpyHostToDevice);

    twice([&](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, in, out, n); });
    show("sum", out, 1);
    twice([&](void* t, size_t& b) { return cub::DeviceReduce::Min(t, b, in, out, n); });
    show("min", out, 1);
    twice([&](void* t, size_t& b) { return cub::DeviceReduce::Max(t, b, keys, sorted, n); });
    show("max", sorted, 1);
    twice([&](void* t, size_t& b) { return cub::DeviceReduce::Reduce(t, b, in, out, n, Longest(), -7); });
    show("reduce", out, 1);
    cub::KeyValuePair<int, int>* pair;
    cudaMalloc(&pair, sizeof *pair);
    twice([&](void* t, size_t& b) { return cub::DeviceReduce::ArgMax(t, b, in, pair, n); });
    cub::KeyValuePair<int, int> best;
    cudaMemcpy(&best, pair, sizeof best, cudaMemcpyDeviceToHost);
    printf("argmax %d %d\n", best.key, best.value);
    twice([&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, in, out, n); });
    show("exclusive sum", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n); });
    show("inclusive sum", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceScan::InclusiveScan(t, b, in, out, Longest(), n); });
    show("inclusive max", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveScan(t, b, in, out, Longest(), -500, n); });
    show("exclusive max", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, in, out, n); });
    show("sort", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeysDescending(t, b, keys, sorted, n); });
    show("sort down", sorted, n);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortPairs(t, b, keys, sorted, in, values, n); });
    show("pairs keys", sorted, n);
    show("pairs values", values, n);
    cub::DoubleBuffer<int> buffer(in, out);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, buffer, n, 0, 32); });
    show("double buffer", buffer.Current(), n);
    cudaMemcpy(in, h.data(), n * 4, cudaMemcpyHostToDevice);
    twice([&](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, in, out, count, n, Odd()); });
    show("odd count", count, 1);
    show("odd", out, 2000);
    twice([&](void* t, size_t& b) { return cub::DevicePartition::If(t, b, in, out, count, n, Odd()); });
    show("partition", out, n);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, in, out, n); });
    twice([&](void* t, size_t& b) { return cub::DeviceSelect::Unique(t, b, out, values, count, n); });
    show("unique count", count, 1);
    show("unique", values, 1000);
    twice([&](void* t, size_t& b) { return cub::DeviceRunLengthEncode::Encode(t, b, out, in, values, count, n); });
    show("runs", values, 1000);
    cudaMemcpy(in, h.data(), n * 4, cudaMemcpyHostToDevice);
    twice([&](void* t, size_t& b) { return cub::DeviceHistogram::HistogramEven(t, b, in, out, 9, -400, 608, n); });
    show("histogram", out, 8);
    int starts[4] = {0, 1000, 1000, n};
    cudaMemcpy(offsets, starts, sizeof starts, cudaMemcpyHostToDevice);
    twice([&](void* t, size_t& b) { return cub::DeviceSegmentedReduce::Sum(t, b, in, out, 3, offsets, offsets + 1); });
    show("segments", out, 3);
    auto squares = thrust::make_transform_iterator(thrust::make_counting_iterator(1), Square());
    twice([&](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, squares, out, 100); });
    show("squares", out, 1);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
