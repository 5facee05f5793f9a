// Small kernels with a bug, one for each number on the command line; with -DFIXED they have none. The comment before a kernel says what is
// found in it, and others mark the lines: `// line`, and `// other` for the second access of a race.
#include <cstdlib>

#ifdef FIXED
#define FIX(...) __VA_ARGS__
#define BUG(...)
#else
#define FIX(...)
#define BUG(...) __VA_ARGS__
#endif

// finds: warning race. Lanes exchange values through shared memory and trust that they run together.
__global__ void no_syncwarp(const int* in, int* out) {
    __shared__ int box[32];
    int t = threadIdx.x;
    box[t] = t;  // other
    FIX(__syncwarp();)
    out[t] = box[t / 2];  // line
}

// finds: error race. The sum is read before all have added to it.
__global__ void plain_read_of_atomic(const int* in, int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, 1);  // other
    FIX(__syncthreads();)
    out[threadIdx.x] = sum;  // line
}

// finds: error race. All blocks write one element.
__global__ void race_between_blocks(const int* in, int* out) {
    int block = blockIdx.x;
    FIX(if (block == 3 && threadIdx.x == 0))
        out[0] = block;  // line other
}

// finds: info race. Many threads set one flag, to the same value.
__global__ void same_value(const int* in, int* out) {
    FIX(if (threadIdx.x == 0 && blockIdx.x == 0))
        *out = 1;  // line other
}

// finds: error race. One warp hands a value to another by a flag, and the fence comes too late. A fence of the block is enough for it.
__global__ void fence_behind_the_flag(const int* in, int* out) {
    __shared__ int value;
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 32) {
        value = 7;  // other
        FIX(__threadfence_block();)
        flag = 1;
        BUG(__threadfence_block();)
    }
    if (threadIdx.x == 0) {
        while (flag == 0) __nanosleep(10);
        out[blockIdx.x] = value;  // line
    }
}

// finds: error divergent_barrier. Lanes of one warp wait at two barriers.
__global__ void divergent_warp_barrier(const int* in, int* out) {
    __shared__ int box[32];
    int t = threadIdx.x;
    if (t < 16 FIX(|| true)) {
        box[t] = t;
        __syncthreads();  // line
    } else {
        box[t] = -t;
        __syncthreads();  // other
    }
    out[t] = box[31 - t];
}

// finds: warning divergent_barrier. Whole warps wait at two barriers: the device goes on, and compute-sanitizer complains.
__global__ void divergent_block_barrier(const int* in, int* out) {
    __shared__ int box[64];
    int t = threadIdx.x;
    if (t < 32 FIX(|| true)) {
        box[t] = t;
        __syncthreads();  // line
    } else {
        box[t] = -t;
        __syncthreads();  // other
    }
    out[t] = box[63 - t];
}

// finds: error inactive_lane. Half of the warp has returned when the rest sums over all of it.
__global__ void exited_lane(const int* in, int* out) {
    int t = threadIdx.x, v = t;
    BUG(if (t >= 16) return;)
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);  // line
    if (t == 0) *out = v;
}

// finds: error inactive_lane. The mask names lanes that are in the other branch.
__global__ void wrong_mask(const int* in, int* out) {
    int t = threadIdx.x, v = 0;
    const unsigned mask = FIX(0xffff) BUG(0xffffffff);
    if (t < 16) v = __shfl_sync(mask, t, 3);  // line
    __syncthreads();
    out[t] = v;
}

// finds: error out_of_bounds. A row of 33 columns is read at column 33.
__global__ void shared_bounds(const int* in, int* out) {
    __shared__ int tile[32][33];
    for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = row;
    if (threadIdx.x == 0)
        for (int row = 0; row < 32; ++row) tile[row][32] = row;
    __syncthreads();
    int last = FIX(31) BUG(32);
    if (threadIdx.x == last - 1 || threadIdx.x == 31) out[threadIdx.x] = tile[1][threadIdx.x + 1 + last - 31];  // line
}

// finds: error uninitialised_read. The upper half of the box is read before anything is there.
__global__ void uninitialised_shared(const int* in, int* out) {
    __shared__ int box[64];
    int t = threadIdx.x;
    box[t] = t;
    FIX(box[t + 32] = t;)
    __syncthreads();
    out[t] = box[t] + box[(t + 1) % 64];  // line
}

// finds: error uninitialised_read. cudaMalloc gives no zeros.
__global__ void uninitialised_global(const int* in, int* out) {
    out[threadIdx.x] += 1;  // line
}

// finds: error uninitialised_read. Three of the four partial sums have a first value.
__global__ void local_array_element(const int* in, int* out) {
    float total[4], *last = &total[3];
    FIX(*last = 0;)
    for (int i = 0; i < 3; ++i) total[i] = in[i];
    out[threadIdx.x] = total[0] + total[1] + total[2] + total[3];  // line
}

// finds: error uninitialised_read. Half of the threads have no value.
__global__ void local_branch(const int* in, int* out) {
    int factor;
    if (threadIdx.x < 16) factor = in[0];
    FIX(else factor = 1;)
    out[threadIdx.x] = factor;  // line
}

// finds: error uninitialised_read. A variable of a loop's body is a new one each time: what the turn before has written is gone.
__global__ void local_loop(const int* in, int* out) {
    for (int row = 0; row < 8 && threadIdx.x == 0; ++row) {
        float total, factor = 2;
        if (row == 0 FIX(|| true)) total = 0;
        total += factor * in[row];  // line
        out[row] = total;
    }
}

// finds: error uninitialised_read. The variable is read in a function that has only its address.
__device__ __noinline__ void add(float* total, float x) {
    *total += x;  // line
}
__global__ void local_pointer(const int* in, int* out) {
    float total;
    FIX(total = 0;)
    for (int i = 0; i < 4; ++i) add(&total, in[i]);
    out[threadIdx.x] = total;
}

struct Bug {
    void (*kernel)(const int*, int*);
    int blocks, threads;
};

int main(int, char** words) {
    const Bug bugs[] = {
        {no_syncwarp, 1, 32}, {plain_read_of_atomic, 1, 64}, {race_between_blocks, 4, 1}, {same_value, 1, 64}, {fence_behind_the_flag, 2, 64},
        {divergent_warp_barrier, 1, 32}, {divergent_block_barrier, 1, 64}, {exited_lane, 1, 32}, {wrong_mask, 1, 32}, {shared_bounds, 1, 32},
        {uninitialised_shared, 1, 32}, {uninitialised_global, 1, 32}, {local_array_element, 1, 32}, {local_branch, 1, 32}, {local_loop, 1, 32},
        {local_pointer, 1, 32},
    };
    const Bug& bug = bugs[atoi(words[1])];
    int *in, *out;
    cudaMalloc(&in, 64 * sizeof(int)), cudaMalloc(&out, 64 * sizeof(int));
    cudaMemset(in, 0, 64 * sizeof(int));
#ifdef FIXED
    cudaMemset(out, 0, 64 * sizeof(int));
#endif
    bug.kernel<<<bug.blocks, bug.threads>>>(in, out);
    return cudaDeviceSynchronize();
}
