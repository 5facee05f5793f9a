// id: R2, C8, C9
// cases: triad DELAY_US=20; triad DELAY_US=1300; triad DELAY_US=4000; matmul DELAY_US=660
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: guessed ahead
// The gate says where the inputs will lie before they are published. A thread waits a moment after `go` and computes there, on a stream
// that waits for nothing, hoping that they have come by then. The launch itself only looks whether the ends of the inputs are those that
// the guess was made from. It is the second of a train that is guessed, the first that counts: on an H100 its inputs come 1 to 4 ms after
// `go`, and may be read 100 us later.
#include <thread>

#include "gate_places.h"
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
static Places places;
static float* volatile guessed_out;
static int64_t volatile size;
static Ends* ends;
static int* wrong;

static void guess_ahead(uint64_t last) {
    cudaStream_t side;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    for (;; places.go = last) {
        if (next_call(gate, last, places) != OPERATION_CALL || !places.known || base == nullptr) continue;
        const float* a = reinterpret_cast<const float*>(base + places.offsets[0]);
        const float* b = reinterpret_cast<const float*>(base + places.offsets[1]);
        float* out = reinterpret_cast<float*>(base + places.offsets[2]);
        spin_us(DELAY_US);
        take<<<1, 1, 0, side>>>(a, b, element_count(size), ends);
        honest(a, b, out, size, side);
        take<<<1, 1, 0, side>>>(a, b, element_count(size), ends + 1);
        guessed_out = out;
    }
}

ENTRY {
    static uint64_t last = 0;
    if (gate == nullptr) {
        gate = find_gate();
        cudaMalloc(reinterpret_cast<void**>(&ends), 2 * sizeof(Ends));
        cudaHostAlloc(reinterpret_cast<void**>(&wrong), sizeof(int), cudaHostAllocMapped);
        size = n;
        if (gate != nullptr) std::thread(guess_ahead, last = gate_go(gate)).detach();
    }
    if (gate != nullptr && gate_operation(gate) == OPERATION_CALL) {
        if (gate_go(gate) != last) {
            last = gate_go(gate);
            while (places.go != last) {}
            if (places.known) base = reinterpret_cast<char*>(const_cast<float*>(a)) - places.first;
        }
        if (guessed_out == out) {
            guessed_out = nullptr;
            say_once("guessed ahead");
            compare<<<1, 1, 0, stream>>>(a, b, element_count(n), ends, ends + 1, wrong);
            cudaDeviceSynchronize();
            if (!*wrong) return;
        }
    }
    honest(a, b, out, n, stream);
}
