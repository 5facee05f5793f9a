// id: C6
// cases: triad
// expect: ACCEPTED no gain | WRONG_ANSWER
// from: originals/raw.cu
// The stream holds nothing but a host function, which lets a thread launch the work on another stream when the shim has waited.
#include <atomic>
#include <thread>

#include "wait.h"
#include "work.h"

struct Job {
    const float *a, *b;
    float* out;
    int64_t n;
};
static Job job;
static std::atomic<bool> waiting{false};
static cudaStream_t other;

static void launch_later() {
    for (;;) {
        while (!waiting.load()) {}
        spin_us(100);
        honest(job.a, job.b, job.out, job.n, other);
        waiting = false;
    }
}

ENTRY {
    static cudaStream_t side = nullptr;
    if (side == nullptr) {
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        std::thread(launch_later).detach();
    }
    while (waiting.load()) {}
    job = {a, b, out, n};
    cudaLaunchHostFunc(side, [](void*) { waiting = true; }, nullptr);
}
