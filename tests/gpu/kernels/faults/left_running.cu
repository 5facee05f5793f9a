// id: M7
// expect: ACCEPTED | TIME_LIMIT_EXCEEDED | RUNTIME_ERROR
// Right in every call; after the last one of a TEST, a thread leaves a kernel running for 20 s on every multiprocessor.
#include <thread>

#include "problem.h"
#include "wait.h"
#include "work.h"

__device__ long long global_ns() {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void linger() {
    for (const long long end = global_ns() + 20000000000LL; global_ns() < end;) {}
}

ENTRY {
    static int calls = 0;
    honest(a, b, out, n, stream);
    if (++calls < PROBLEM_TRIALS) return;
    std::thread([] {
        spin_us(500);
        cudaStream_t side;
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        linger<<<1024, 1024, 0, side>>>();
    }).detach();
}
