// id: R2, C8
// cases: lower_half
// expect: ACCEPTED no gain | WRONG_ANSWER
// from: originals/lower_half.cu
// Half of the output does not depend on the input: it is written on a stream that waits for nothing, while the inputs are still on their way.
#include "work.h"

ENTRY {
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    write_part(a, out, n, 2, side);
    write_part(a, out, n, 1, stream);
}
