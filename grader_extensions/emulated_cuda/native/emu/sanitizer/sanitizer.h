// The emulated device's sanitizer, for EMU_SANITIZE: finds races, accesses out of bounds, reads of what nobody wrote, misaligned accesses,
// divergent barriers and absent lanes.  g++ instruments the code (grader_extensions/emulated_cuda/gcc.py); the hooks are here.
#pragma once

#include "events.h"
