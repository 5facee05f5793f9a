// id: C8, R2, J3
// cases: triad
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED | TIME_LIMIT_EXCEEDED
// from: originals/raw.cu
// proof: watched the right places
// The gate says where the inputs will lie before they are published. At `go` a kernel is left there, on a stream that waits for nothing,
// which watches the ends of inputs and output and computes as soon as all of them have changed: the inputs have come, and the poison,
// which comes last. It gives up after 100 ms. Of a train it watches the second run, the first that counts.
#include <thread>

#include "gate_places.h"
#include "work.h"

struct Control {
    volatile int stop, computed;
};

__device__ unsigned finished_blocks;

__device__ long long global_ns() {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void poll(const volatile float* a, const volatile float* b, float* out, int64_t n, Control* control) {
    __shared__ int changed;
    if (threadIdx.x == 0) {
        // By their bits: what lies there before may be NaN.
        const volatile int* watched[3] = {
            reinterpret_cast<const volatile int*>(a), reinterpret_cast<const volatile int*>(b), reinterpret_cast<const volatile int*>(out)};
        int before[6];
        for (int at = 0; at < 6; ++at) before[at] = watched[at / 2][at % 2 ? n - 1 : 0];
        const long long end = global_ns() + 100000000;
        int seen = 0;
        while (!seen && global_ns() < end && !control->stop) {
            seen = 1;
            for (int at = 0; at < 6; ++at) seen &= watched[at / 2][at % 2 ? n - 1 : 0] != before[at];
        }
        for (const long long settled = global_ns() + 20000; seen && global_ns() < settled;) {}
        changed = seen;
    }
    __syncthreads();
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; changed && i < n; i += step) out[i] = 2.0f * a[i] + b[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        const unsigned parts = atomicAdd(&finished_blocks, changed ? 1u : 0x10000u) + (changed ? 1u : 0x10000u);
        if ((parts & 0xffff) + (parts >> 16) == gridDim.x) {
            finished_blocks = 0;
            control->computed = parts == gridDim.x;  // all of it, or it counts for nothing
        }
    }
}

static volatile char* gate;
static char* volatile base;
static Places places;
static float* volatile armed_out;
static int64_t volatile size;
static Control* control;
static cudaStream_t side;

static void leave_kernels(uint64_t last, int processors) {
    for (;; places.go = last) {
        if (next_call(gate, last, places) != OPERATION_CALL || !places.known || base == nullptr) continue;
        control->stop = 0;
        control->computed = 0;
        const float* a = reinterpret_cast<const float*>(base + places.offsets[0]);
        const float* b = reinterpret_cast<const float*>(base + places.offsets[1]);
        armed_out = reinterpret_cast<float*>(base + places.offsets[2]);
        poll<<<processors, 1024, 0, side>>>(a, b, armed_out, size, control);
    }
}

ENTRY {
    static uint64_t last = 0;
    if (gate == nullptr) {
        int processors = 0;
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaHostAlloc(reinterpret_cast<void**>(&control), sizeof(Control), cudaHostAllocMapped);
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        size = n;
        gate = find_gate();
        if (gate != nullptr) std::thread(leave_kernels, last = gate_go(gate), processors).detach();
    }
    if (gate != nullptr && gate_operation(gate) == OPERATION_CALL) {
        if (gate_go(gate) != last) {
            last = gate_go(gate);
            while (places.go != last) {}
            if (places.known) base = reinterpret_cast<char*>(const_cast<float*>(a)) - places.first;
        }
        if (armed_out == out) {
            armed_out = nullptr;
            say_once("watched the right places");
            cudaStreamSynchronize(side);
            if (control->computed) return;
        }
    }
    honest(a, b, out, n, stream);
}
