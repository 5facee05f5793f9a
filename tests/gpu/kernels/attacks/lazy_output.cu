// id: C10, C4
// cases: triad
// expect: WRONG_ANSWER
// from: originals/raw.cu
// Every call writes the output of the call before it, which nobody should have looked at yet.
#include "work.h"

struct Job {
    const float *a, *b;
    float* out;
};

ENTRY {
    static Job last{nullptr, nullptr, nullptr};
    if (last.out != nullptr) honest(last.a, last.b, last.out, n, stream);
    last = {a, b, out};
}
