// Kernels as templates: deduced, explicit, with a default, with a type and with a switch.
#include <cstdio>
template <typename T>
__global__ void fill(T* x, T value) {
    x[threadIdx.x] = value;
}
template <int N, bool twice = false, typename T = int>
__global__ void add(T* x) {
    if constexpr (twice)
        x[threadIdx.x] += 2 * N;
    else
        x[threadIdx.x] += N;
}
namespace deep {
template <typename A, typename B>
struct Sum {
    static __device__ A of(A a, B b) { return a + b; }
};
template <class F, class T>
__global__ void apply(T* x) {
    x[threadIdx.x] = F::of(x[threadIdx.x], 1);
}
}  // namespace deep
int main() {
    int h[4], *x;
    cudaMalloc(&x, sizeof h);
    fill<<<1, 4>>>(x, 7);
    add<3><<<1, 4>>>(x);
    add<5, true><<<1, 2>>>(x);
    deep::apply<deep::Sum<int, int>><<<1, 3>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[1], h[2], h[3]);
}
