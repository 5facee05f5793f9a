// expect: ACCEPTED
// The honest kernel that raw attacks are derived from.
#include "work.h"

ENTRY { honest(a, b, out, n, stream); }
