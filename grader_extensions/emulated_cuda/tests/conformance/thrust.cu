// Thrust on device pointers and device vectors. nvcc needs --extended-lambda.
#include <cstdio>
#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
struct Square {
    __host__ __device__ int operator()(int v) const { return v * v; }
};
struct Odd {
    __host__ __device__ bool operator()(int v) const { return v % 2 != 0; }
};
__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (i * 7919 + 13) % 1009 - 400;
}
template <typename V>
void show(const char* name, const V& v) {
    thrust::host_vector<int> h(v.begin(), v.end());
    unsigned sum = 0;
    for (int value : h) sum = sum * 31 + static_cast<unsigned>(value);
    printf("%s %d %08x:", name, static_cast<int>(h.size()), sum);
    for (size_t i = 0; i < h.size() && i < 6; ++i) printf(" %d", h[i]);
    printf("\n");
}
int main() {
    const int n = 3000;
    int* x;
    cudaMalloc(&x, n * sizeof(int));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    fill<<<(n + 127) / 128, 128, 0, stream>>>(x, n);
    printf("reduce %d\n", thrust::reduce(thrust::cuda::par.on(stream), x, x + n, 5));
    printf("reduce max %d\n", thrust::reduce(thrust::device, x, x + n, -10000, thrust::maximum<int>()));
    printf("squares %d\n", thrust::transform_reduce(thrust::device, x, x + n, Square(), 0, thrust::plus<int>()));
    printf("count %d\n", static_cast<int>(thrust::count_if(thrust::device, x, x + n, Odd())));
    thrust::device_ptr<int> p(x);
    printf("at %d, max at %d, min at %d\n", static_cast<int>(p[3]), static_cast<int>(thrust::max_element(p, p + n) - p),
           static_cast<int>(thrust::min_element(p, p + n) - p));
    thrust::device_vector<int> v(p, p + n), w(n), k(n);
    show("vector", v);
    thrust::transform(v.begin(), v.end(), w.begin(), Square());
    show("transform", w);
    thrust::transform(v.begin(), v.end(), w.begin(), w.begin(), [] __host__ __device__(int a, int b) { return a + b; });
    show("sums", w);
    thrust::inclusive_scan(v.begin(), v.end(), w.begin());
    show("inclusive", w);
    thrust::exclusive_scan(v.begin(), v.end(), w.begin(), 7);
    show("exclusive", w);
    thrust::sequence(k.begin(), k.end(), 100, 3);
    show("sequence", k);
    w = v;
    thrust::sort_by_key(w.begin(), w.end(), k.begin());
    show("values by key", k);
    thrust::sort(thrust::cuda::par.on(stream), v.begin(), v.end(), thrust::greater<int>());
    show("sorted down", v);
    v.erase(thrust::unique(v.begin(), v.end()), v.end());
    show("unique", v);
    thrust::device_vector<int> odd(v.size());
    odd.resize(thrust::copy_if(v.begin(), v.end(), odd.begin(), Odd()) - odd.begin());
    show("odd", odd);
    thrust::fill(odd.begin(), odd.begin() + 3, 9);
    odd.push_back(77);
    show("filled", odd);
    int* raw = thrust::raw_pointer_cast(odd.data());
    fill<<<1, 32>>>(raw, 20);
    cudaDeviceSynchronize();
    show("written by a kernel", odd);
    thrust::for_each(thrust::device, thrust::make_counting_iterator(0), thrust::make_counting_iterator(10), [raw] __device__(int i) { raw[i] = i * i; });
    show("for each", odd);
    thrust::device_vector<int> keys(12), ones(12, 1), found(12), counts(12);
    for (int i = 0; i < 12; ++i) keys[i] = i / 5;
    int kinds = thrust::reduce_by_key(keys.begin(), keys.end(), ones.begin(), found.begin(), counts.begin()).first - found.begin();
    found.resize(kinds), counts.resize(kinds);
    show("kinds", found);
    show("counts", counts);
    auto pairs = thrust::make_zip_iterator(thrust::make_tuple(keys.begin(), ones.begin()));
    printf("pair %d %d\n", static_cast<int>(thrust::get<0>(pairs[11])), static_cast<int>(thrust::get<1>(pairs[11])));
}
