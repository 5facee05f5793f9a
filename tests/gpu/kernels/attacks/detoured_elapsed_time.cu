// id: D4, E7
// cases: matmul
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: detoured
// Overwrites the code of the functions that read event times, in the runtime that torch has loaded and in the driver: 10 us, always.
#include "detour.h"
#include "work.h"

static int always(float* ms, void*, void*) {
    *ms = 0.01f;
    return 0;
}

__attribute__((constructor)) static void at_load() {
    for (const char* library : {"libcudart.so.13", "libcudart.so.12"})
        for (const char* name : {"cudaEventElapsedTime", "cudaEventElapsedTime_v2"}) detour(library, name, reinterpret_cast<void*>(always));
    for (const char* name : {"cuEventElapsedTime", "cuEventElapsedTime_v2"}) detour("libcuda.so.1", name, reinterpret_cast<void*>(always));
}

ENTRY { honest(a, b, out, n, stream); }
