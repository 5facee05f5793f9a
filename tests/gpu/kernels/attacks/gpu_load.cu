// id: F2
// cases: triad SHARE_PERCENT=100; triad SHARE_PERCENT=45
// expect: ACCEPTED no gain | DISQUALIFIED | TIME_LIMIT_EXCEEDED
// from: originals/raw.cu
// Between its own calls a thread keeps every multiprocessor busy, so that the baseline's turns are slow; a call stops that at once. Or it
// does so under half of the time, so that no median of null runs or of the baseline shows it.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "parameters.h"
#include "wait.h"
#include "work.h"

__device__ long long global_ns() {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void burn(const volatile int* stop) {
    __shared__ volatile int ended;
    const long long end = global_ns() + 2000000;
    if (threadIdx.x == 0) ended = 0;
    __syncthreads();
    while (global_ns() < end && !ended)
        if (threadIdx.x == 0 && *stop) ended = 1;
}

static volatile int* stop;
static std::atomic<int64_t> quiet_until{0};

static void load(int processors) {
    cudaStream_t side;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    for (;;) {
        if (now_ns() < quiet_until.load()) continue;
        if (rand() % 100 >= SHARE_PERCENT) {
            quiet_until = now_ns() + 2000000;
            continue;
        }
        *stop = 0;
        burn<<<2 * processors, 1024, 0, side>>>(const_cast<const volatile int*>(stop));
        cudaStreamSynchronize(side);
    }
}

ENTRY {
    if (stop == nullptr) {
        int processors = 0;
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaHostAlloc(reinterpret_cast<void**>(const_cast<int**>(&stop)), sizeof(int), cudaHostAllocMapped);
        quiet_until = INT64_MAX;
        std::thread(load, processors).detach();
    }
    quiet_until = INT64_MAX;
    *stop = 1;
    honest(a, b, out, n, stream);
    quiet_until = now_ns() + 2000000;
}
