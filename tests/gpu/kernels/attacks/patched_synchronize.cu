// id: C11, D4
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: detoured
// Overwrites the code of every function that waits for a device, a context or a stream: the shim believes that all is done.
#include "detour.h"
#include "work.h"

static int nothing() { return 0; }

__attribute__((constructor)) static void at_load() {
    for (const char* library : {"libcudart.so.13", "libcudart.so.12"})
        for (const char* name : {"cudaDeviceSynchronize", "cudaStreamSynchronize"}) detour(library, name, reinterpret_cast<void*>(nothing));
    for (const char* name : {"cuCtxSynchronize", "cuCtxSynchronize_v2", "cuStreamSynchronize", "cuStreamSynchronize_ptsz"})
        detour("libcuda.so.1", name, reinterpret_cast<void*>(nothing));
}

ENTRY { honest(a, b, out, n, stream); }
