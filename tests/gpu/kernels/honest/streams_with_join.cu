// twin of: side_stream
// cases: triad
// expect: ACCEPTED
// Two streams, half of the vector each, forked off the caller's stream by an event and joined to it by two.
#include "work.h"

ENTRY {
    static cudaStream_t sides[2] = {nullptr, nullptr};
    static cudaEvent_t fork, joins[2];
    if (sides[0] == nullptr) {
        cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
        for (int side = 0; side < 2; ++side) {
            cudaStreamCreateWithFlags(&sides[side], cudaStreamNonBlocking);
            cudaEventCreateWithFlags(&joins[side], cudaEventDisableTiming);
        }
    }
    const int64_t half = n / 8 * 4;
    cudaEventRecord(fork, stream);
    for (int side = 0; side < 2; ++side) {
        const int64_t begin = side * half, count = side == 0 ? half : n - half;
        cudaStreamWaitEvent(sides[side], fork, 0);
        honest(a + begin, b + begin, out + begin, count, sides[side]);
        cudaEventRecord(joins[side], sides[side]);
        cudaStreamWaitEvent(stream, joins[side], 0);
    }
}
