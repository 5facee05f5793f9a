// id: C3, C10
// cases: triad DELAY_US=0; triad DELAY_US=400; matmul DELAY_US=0
// expect: ACCEPTED no gain | WRONG_ANSWER
// from: originals/raw.cu
// A thread launches the work after the call has returned, so that the shim finds the device idle and says done.
#include <atomic>
#include <thread>

#include "parameters.h"
#include "wait.h"
#include "work.h"

struct Job {
    const float *a, *b;
    float* out;
    int64_t n;
};
static Job job;
static std::atomic<bool> waiting{false};

static void launch_later() {
    for (;;) {
        while (!waiting.load()) {}
        spin_us(DELAY_US);
        honest(job.a, job.b, job.out, job.n, nullptr);
        waiting = false;
    }
}

ENTRY {
    static bool begun = false;
    if (!begun) std::thread(launch_later).detach();
    begun = true;
    while (waiting.load()) {}
    job = {a, b, out, n};
    waiting = true;
}
