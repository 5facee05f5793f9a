// id: R2, C8, C9
// cases: triad DELAY_US=20; triad DELAY_US=150; matmul DELAY_US=40
// expect: ACCEPTED no gain | WRONG_ANSWER
// from: originals/raw.cu
// proof: gate found
// The gate says where the inputs will lie before they are published. A thread waits a moment and computes there, hoping that they have
// come by then and that `go` has not. The call itself only looks whether the ends of the inputs are those that the guess was made from.
#include <atomic>
#include <thread>

#include "gate.h"
#include "parameters.h"
#include "wait.h"
#include "work.h"

struct Ends {
    float value[4];
};

__global__ void take(const float* a, const float* b, int64_t count, Ends* ends) {
    *ends = {{a[0], a[count - 1], b[0], b[count - 1]}};
}

__global__ void compare(const float* a, const float* b, int64_t count, const Ends* before, const Ends* after, int* wrong) {
    const float now[4] = {a[0], a[count - 1], b[0], b[count - 1]};
    *wrong = 0;
    for (int at = 0; at < 4; ++at) *wrong |= now[at] != before->value[at] || now[at] != after->value[at];
}

static volatile char* gate;
static char* volatile base;
static std::atomic<int> guess{0};  // 0: none; 1: being launched; 2: launched
static float* volatile guessed_out;
static int64_t volatile size;
static Ends* ends;
static int* wrong;

static void guess_ahead() {
    cudaStream_t side;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    for (uint64_t last = gate_go(gate);;) {
        const uint64_t go = gate_go(gate);
        if (go == last) continue;
        last = go;
        if (gate_operation(gate) != OPERATION_PLACE || gate_count(gate) != 1 || base == nullptr) continue;
        guess = 1;
        const float* a = reinterpret_cast<const float*>(base + gate_slot(gate, 0));
        const float* b = reinterpret_cast<const float*>(base + gate_slot(gate, 1));
        float* out = reinterpret_cast<float*>(base + gate_slot(gate, 2));
        guessed_out = out;
        spin_us(DELAY_US);
        take<<<1, 1, 0, side>>>(a, b, element_count(size), ends);
        honest(a, b, out, size, side);
        take<<<1, 1, 0, side>>>(a, b, element_count(size), ends + 1);
        guess = 2;
    }
}

ENTRY {
    if (gate == nullptr) {
        gate = find_gate();
        cudaMalloc(reinterpret_cast<void**>(&ends), 2 * sizeof(Ends));
        cudaHostAlloc(reinterpret_cast<void**>(&wrong), sizeof(int), cudaHostAllocMapped);
        size = n;
        if (gate != nullptr) std::thread(guess_ahead).detach();
    }
    static uint64_t last = 0;
    if (gate != nullptr && gate_operation(gate) == OPERATION_CALL && gate_go(gate) != last) {
        last = gate_go(gate);
        base = reinterpret_cast<char*>(const_cast<float*>(a)) - gate_slot(gate, 0);
        while (guess == 1) {}
        if (guess.exchange(0) == 2 && guessed_out == out) {
            compare<<<1, 1, 0, stream>>>(a, b, element_count(n), ends, ends + 1, wrong);
            cudaDeviceSynchronize();
            if (!*wrong) return;
        }
    }
    honest(a, b, out, n, stream);
}
