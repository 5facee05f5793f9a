// id: C1
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// Launches on a stream that waits for nobody and returns; a timer on the default stream sees nothing of it.
#include "work.h"

ENTRY {
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    honest(a, b, out, n, side);
}
