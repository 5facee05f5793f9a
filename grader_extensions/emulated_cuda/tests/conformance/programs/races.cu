// Twenty small kernels with a race, one for each number on the command line; with -DFIXED they have none. The accesses that race are marked.
#include <cstdio>
#include <cstdlib>

#ifdef FIXED
#define WAIT __syncthreads()
#define ADD(place, what) atomicAdd(&(place), what)
#else
#define WAIT
#define ADD(place, what) (place) += what
#endif

constexpr int N = 64;  // two warps

__global__ void unwaited_tile(int* a, int* out) {
    __shared__ int tile[N];
    tile[threadIdx.x] = a[threadIdx.x];  // race 1
    WAIT;
    out[threadIdx.x] = tile[N - 1 - threadIdx.x];  // race 1
}

__global__ void next_load(int* a, int* out) {
    __shared__ int tile[N];
    int sum = 0;
    for (int turn = 0; turn < 3; ++turn) {
        tile[threadIdx.x] = a[threadIdx.x] + turn;  // race 2
        __syncthreads();
        sum += tile[(threadIdx.x + 40) % N];  // race 2
        WAIT;
    }
    out[threadIdx.x] = sum;
}

__global__ void reduction(int* a, int* out) {
    __shared__ int all[N];
    all[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int step = N / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) all[threadIdx.x] += all[threadIdx.x + step];  // race 3
        WAIT;
    }
    if (threadIdx.x == N - 1) out[0] = all[0];  // race 3
}

__global__ void scan_in_place(int* a, int* out) {
    __shared__ int sums[N];
    sums[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int step = 1; step < N; step *= 2) {
        int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;  // race 4
        WAIT;
        sums[threadIdx.x] += before;  // race 4
        __syncthreads();
    }
    out[threadIdx.x] = sums[threadIdx.x];
}

__global__ void counter(int* a, int* out) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (a[threadIdx.x] > 3) ADD(count, 1);  // race 5
    __syncthreads();
    if (threadIdx.x == 0) out[0] = count;
}

__global__ void histogram(int* a, int* out) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    ADD(bins[a[threadIdx.x] % 8], 1);  // race 6
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}

__global__ void transpose(int* a, int* out) {
    __shared__ int tile[8][9];
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
    tile[y][x] = a[threadIdx.x];  // race 7
    WAIT;
    out[threadIdx.x] = tile[x][y];  // race 7
}

__global__ void wrong_buffer(int* a, int* out) {
    __shared__ int buffer[2][N];
    int sum = 0;
    buffer[0][threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    for (int turn = 0; turn < 4; ++turn) {
#ifdef FIXED
        int next = (turn + 1) % 2;
#else
        int next = turn % 2;
#endif
        buffer[next][threadIdx.x] = a[threadIdx.x] + turn;  // race 8
        sum += buffer[turn % 2][(threadIdx.x + 33) % N];  // race 8
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

__global__ void warp_barrier_for_block(int* a, int* out) {
    __shared__ int tile[N];
    tile[threadIdx.x] = a[threadIdx.x];  // race 9
    __syncwarp();
    WAIT;
    out[threadIdx.x] = tile[(threadIdx.x + 32) % N];  // race 9
}

__global__ void broadcast(int* a, int* out) {
    __shared__ int first;
    if (threadIdx.x == 0) first = a[0];  // race 10
    WAIT;
    out[threadIdx.x] = first;  // race 10
}

__global__ void sum_of_blocks(int* a, int* out) {
    if (threadIdx.x == 0) ADD(out[0], a[blockIdx.x]);  // race 11
}

__global__ void stencil_in_place(int* a, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int right = a[(i + 1) % (gridDim.x * blockDim.x)];  // race 12
#ifdef FIXED
    out[i] = right;
#else
    a[i] = right;  // race 12
#endif
}

__global__ void global_in_block(int* a, int* out) {
    out[threadIdx.x] = a[threadIdx.x];  // race 13
    WAIT;
    a[threadIdx.x] = out[(threadIdx.x + 35) % N];  // race 13
}

__global__ void last_writer(int* a, int* out) {
    __shared__ int last;
#ifdef FIXED
    if (threadIdx.x == N - 1)
#endif
    last = threadIdx.x;  // race 14
    __syncthreads();
    out[threadIdx.x] = last;
}

__global__ void early_count(int* a, int* out) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, a[threadIdx.x]);  // race 15
    WAIT;
    if (threadIdx.x == N / 2) out[0] = count;  // race 15
}

__global__ void overlapping_arrays(int* a, int* out) {
    extern __shared__ int memory[];
#ifdef FIXED
    int *left = memory, *right = memory + N;
#else
    int *left = memory, *right = memory + N - 8;
#endif
    left[threadIdx.x] = a[threadIdx.x];  // race 16
    right[threadIdx.x] = -a[threadIdx.x];  // race 16
    __syncthreads();
    out[threadIdx.x] = left[threadIdx.x] + right[threadIdx.x];
}

__global__ void flag_taken_back(int* a, int* out) {
    __shared__ int found;
    int turns = 0;
    for (int turn = 0; turn < 3; ++turn) {
        if (threadIdx.x == 0) found = a[turn] > 100;  // race 17
        __syncthreads();
        if (found) break;  // race 17
        ++turns;
        WAIT;
    }
    out[threadIdx.x] = turns;
}

__global__ void wide_write(int* a, int* out) {
    __shared__ __align__(16) int tile[N + 4];
#ifdef FIXED
    if (threadIdx.x % 4 == 0)
#else
    if (threadIdx.x % 2 == 0)
#endif
    {
        int4 four = {a[0], a[1], a[2], static_cast<int>(threadIdx.x)};
        for (int i = 0; i < 4; ++i) tile[threadIdx.x + i] = i == 3 ? four.w : four.x;  // race 18
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 4 * 4];
}

__global__ void halo(int* a, int* out) {
    __shared__ int tile[N + 2];
    tile[threadIdx.x + 1] = a[threadIdx.x];  // race 19
    if (threadIdx.x < 2) tile[threadIdx.x * (N + 1)] = 0;  // race 19
    WAIT;
    out[threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x + 2];  // race 19
}

__global__ void warp_totals(int* a, int* out) {
    __shared__ int totals[2];
    int sum = a[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) totals[threadIdx.x / 32] = sum;  // race 20
    WAIT;
    if (threadIdx.x == 0) out[0] = totals[0] + totals[1];  // race 20
}

int main(int, char** words) {
    using Kernel = void (*)(int*, int*);
    const Kernel kernels[] = {unwaited_tile, next_load, reduction, scan_in_place, counter, histogram, transpose, wrong_buffer, warp_barrier_for_block,
                              broadcast, sum_of_blocks, stencil_in_place, global_in_block, last_writer, early_count, overlapping_arrays, flag_taken_back,
                              wide_write, halo, warp_totals};
    int number = atoi(words[1]), host[2 * N];
    for (int i = 0; i < 2 * N; ++i) host[i] = i;
    int *a, *out;
    cudaMalloc(&a, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof host);
    kernels[number - 1]<<<number == 11 || number == 12 ? 2 : 1, N, sizeof host>>>(a, out);
    return cudaDeviceSynchronize();
}
