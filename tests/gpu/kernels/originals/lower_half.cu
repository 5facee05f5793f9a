// expect: ACCEPTED
// The honest kernel of lower_half.
#include "work.h"

ENTRY { honest(a, out, n, stream); }
