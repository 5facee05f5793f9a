// id: B1
// cases: triad HONEST_CALLS=3; triad HONEST_CALLS=20
// expect: WRONG_ANSWER
// from: originals/raw.cu
// Right for as many calls as are verified, or a few more; then a quarter of the work.
#include "parameters.h"
#include "work.h"

ENTRY {
    static int calls = 0;
    honest(a, b, out, calls++ < HONEST_CALLS ? n : n / 4, stream);
}
