// Kernels launched by kernels (dynamic parallelism). nvcc needs -rdc=true, and the linker cudadevrt.
#include <cstdio>

__global__ void add(int* x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}

__global__ void twice(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

__global__ void total(const int* x, int n, int* out) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    *out = sum;
}

// What a thread wrote before, its children see; they run in order; the tail launch runs when all else of the grid is done.
__global__ void in_order(int* x, int n, int* out) {
    total<<<1, 1, 0, cudaStreamTailLaunch>>>(x, n, out);
    for (int i = 0; i < n; ++i) x[i] = i;
    add<<<(n + 31) / 32, 32>>>(x, n, 1);
    twice<<<(n + 31) / 32, 32>>>(x, n);
}

// Every thread launches one.
__global__ void each(int* x, int n) {
    int first = threadIdx.x * n;
    add<<<1, n, 0, cudaStreamFireAndForget>>>(x + first, n, threadIdx.x);
}

// A binary tree of grids: each adds one to a counter.
__global__ void tree(int* count, int depth) {
    atomicAdd(count, 1);
    if (depth == 0) return;
    tree<<<1, 1>>>(count, depth - 1);
    tree<<<1, 1>>>(count, depth - 1);
}

// Longer than grids can be nested: each takes its parent's place.
__global__ void chain(int* count, int left) {
    *count += 1;
    if (left > 0) chain<<<1, 1, 0, cudaStreamTailLaunch>>>(count, left - 1);
}

template <class T>
__global__ void fill(T* x, int n, T value) {
    extern __shared__ char memory[];
    T* staged = reinterpret_cast<T*>(memory);
    staged[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x < n) x[threadIdx.x] = staged[n - 1 - threadIdx.x];
}

__device__ void launch_fill(float* x, int n) { fill<float><<<1, n, n * sizeof(float)>>>(x, n, 1.5f); }

__global__ void from_function(float* x, int n) {
    if (blockIdx.x == 1 && threadIdx.x == 0) launch_fill(x, n);
}

__global__ void with_stream(int* x, int n) {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMemsetAsync(x, 0, n * sizeof(int), stream);
    add<<<1, n, 0, stream>>>(x, n, 7);
    cudaStreamDestroy(stream);
}

__global__ void multiprocessors(int* out) {
    int value = 0;
    *out = cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess && value > 0;
}

int main() {
    int *x, *out;
    float* floats;
    cudaMallocManaged(&x, 1024 * sizeof(int));
    cudaMallocManaged(&out, 8 * sizeof(int));
    cudaMallocManaged(&floats, 8 * sizeof(float));
    in_order<<<1, 1>>>(x, 100, out);
    cudaDeviceSynchronize();
    printf("in order: %d %d %d %d\n", x[0], x[1], x[99], out[0]);

    for (int i = 0; i < 64; ++i) x[i] = 0;
    each<<<1, 8>>>(x, 8);
    cudaDeviceSynchronize();
    printf("one for each thread: %d %d %d\n", x[7], x[8], x[63]);

    *out = 0;
    tree<<<1, 1>>>(out, 5);
    cudaDeviceSynchronize();
    printf("tree: %d\n", *out);

    *out = 0;
    chain<<<1, 1>>>(out, 100);
    cudaDeviceSynchronize();
    printf("chain: %d\n", *out);

    from_function<<<3, 32>>>(floats, 8);
    cudaDeviceSynchronize();
    printf("template: %g %g\n", floats[0], floats[7]);

    with_stream<<<1, 1>>>(x, 64);
    cudaDeviceSynchronize();
    printf("stream: %d %d\n", x[0], x[63]);

    multiprocessors<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    printf("attribute: %d\n", *out);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
