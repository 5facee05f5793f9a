// id: F2, F3
// cases: triad SHARE_PERCENT=100; triad SHARE_PERCENT=45; matmul SHARE_PERCENT=100 HEAT_MS=1000; matmul SHARE_PERCENT=100 HEAT_MS=20
// expect: ACCEPTED no gain | DISQUALIFIED | TIME_LIMIT_EXCEEDED
// from: originals/raw.cu
// Between its own calls a thread keeps every multiprocessor busy, so that the baseline's turns are slow; a call stops that at once. Or it
// does so under half of the time, so that no median of null runs or of the baseline shows it. Or it heats: tensor
// cores burn watts for HEAT_MS and then no more, so that a baseline meets an idle device with lower clocks.
#include <atomic>
#include <cstdlib>
#include <thread>

#include <mma.h>

#include "parameters.h"
#include "wait.h"
#include "work.h"

#ifdef HEAT_MS
constexpr int64_t products = 64, burn_ms = HEAT_MS;
#else
constexpr int64_t products = 0, burn_ms = 1000;
#endif

__device__ long long global_ns() {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void __launch_bounds__(1024) burn(const volatile int* stop) {
    using namespace nvcuda;
    __shared__ volatile int ended;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
    for (int i = 0; i < left.num_elements; ++i) left.x[i] = right.x[i] = __float2half(sinf(37.0f * threadIdx.x + i));
    for (auto& one : sum) wmma::fill_fragment(one, 0.0f);
    const long long end = global_ns() + 2000000;
    if (threadIdx.x == 0) ended = 0;
    __syncthreads();
    while (global_ns() < end && !ended) {
        for (int i = 0; i < products; ++i) wmma::mma_sync(sum[i % 2], left, right, sum[i % 2]);
        if (threadIdx.x == 0 && (*stop || sum[0].x[0] + sum[1].x[0] == -1.0f)) ended = 1;
    }
}

static volatile int* stop;
static std::atomic<int64_t> quiet_until{0}, burn_until{0};

static void load(int processors) {
    cudaStream_t side;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    for (;;) {
        if (now_ns() < quiet_until.load() || now_ns() > burn_until.load()) continue;
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
    burn_until = now_ns() + (2 + burn_ms) * 1000000;
    quiet_until = now_ns() + 2000000;
}
