// cuda::atomic, cuda::atomic_ref and the parts of cuda::std that kernels use.
#include <cstdio>
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/atomic>
#include <cuda/std/cmath>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
__device__ cuda::atomic<int, cuda::thread_scope_device> counter;
__device__ cuda::std::atomic<unsigned> plain;
__device__ int raw[8];
__device__ float total;
__global__ void add(int* out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    counter.fetch_add(t, cuda::memory_order_relaxed);
    ++plain;
    cuda::atomic_ref<int, cuda::thread_scope_device> first(raw[0]), second(raw[1]), third(raw[2]), fourth(raw[3]), fifth(raw[4]);
    first.fetch_add(1, cuda::memory_order_relaxed);
    second.fetch_max((t * 37) % 1001);
    third.fetch_min(-((t * 37) % 997));
    fourth.fetch_xor(t);
    fifth.fetch_or(1 << t % 20);
    int seen = 0;
    cuda::atomic_ref<int, cuda::thread_scope_system> sixth(raw[5]);
    while (!sixth.compare_exchange_weak(seen, seen + 2, cuda::memory_order_acq_rel, cuda::memory_order_relaxed)) {}
    cuda::atomic_ref<float, cuda::thread_scope_device> number(total);
    number.fetch_add(0.5f, cuda::std::memory_order_relaxed);
    __shared__ cuda::atomic<int, cuda::thread_scope_block> inside;
    if (threadIdx.x == 0) inside.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    inside.fetch_sub(static_cast<int>(threadIdx.x));
    __syncthreads();
    out[t] = inside.load(cuda::memory_order_acquire);
}
// A message from one block to the other: data, fence, flag.
__device__ int message;
__device__ int flag;
__global__ void send(int* out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(flag);
    if (blockIdx.x == 0) {
        message = 4711;
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
        ready.store(1, cuda::memory_order_release);
        ready.notify_all();
    } else {
        ready.wait(0, cuda::memory_order_acquire);
        *out = message;
    }
}
struct Pair {
    int a, b;
};
__global__ void types(int* out) {
    cuda::std::array<int, 4> four = {1, 2, 3, 4};
    cuda::std::span<int> all(out, 8);
    auto [x, y] = cuda::std::make_tuple(5, 6.5f);
    cuda::std::pair<int, int> two(7, 8);
    cuda::std::swap(two.first, two.second);
    for (int i = 0; i < 4; ++i) all[i] = four[i] * x;
    out[4] = static_cast<int>(y * 2);
    out[5] = two.first;
    out[6] = cuda::std::numeric_limits<int>::max();
    out[7] = cuda::std::is_same_v<cuda::std::uint32_t, unsigned> + 2 * cuda::std::is_trivially_copyable_v<Pair>;
    cuda::std::mdspan<int, cuda::std::extents<int, 3, cuda::std::dynamic_extent>> m(out + 8, 4);
    for (int i = 0; i < m.extent(0); ++i)
        for (int j = 0; j < m.extent(1); ++j) m(i, j) = i * 10 + j;
    out[20] = static_cast<int>(cuda::std::sqrt(144.0f) + cuda::std::fabs(-3.0f) + cuda::std::floor(2.5));
    cuda::std::atomic_ref<int> last(out[20]);
    out[21] = last.exchange(99);
}
int main() {
    static int h[512];
    int* out;
    cudaMalloc(&out, sizeof h);
    add<<<4, 128>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    int same = 0;
    for (int v : h) same += v == h[0];
    printf("inside %d %d\n", h[0], same);
    int numbers[8];
    float sum;
    cudaMemcpyFromSymbol(numbers, counter, sizeof(int));
    cudaMemcpyFromSymbol(&numbers[1], plain, sizeof(int));
    cudaMemcpyFromSymbol(&sum, total, sizeof sum);
    printf("counters %d %d %g\n", numbers[0], numbers[1], sum);
    cudaMemcpyFromSymbol(numbers, raw, sizeof numbers);
    for (int i = 0; i < 6; ++i) printf("raw %d\n", numbers[i]);
    send<<<2, 1>>>(out);
    cudaMemcpy(h, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("message %d\n", h[0]);
    types<<<1, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 22; ++i) printf("%d%c", h[i], i % 11 == 10 ? '\n' : ' ');
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
