// id: M4
// expect: ACCEPTED | MEMORY_LIMIT_EXCEEDED
// Takes all of the device's memory down to 1 MiB and keeps it; then computes right. The judge must live with what it has.
#include "work.h"

ENTRY {
    static bool begun = false;
    for (size_t bytes = size_t{1} << 30; !begun && bytes >= size_t{1} << 20; bytes /= 4) {
        void* kept = nullptr;
        while (cudaMalloc(&kept, bytes) == cudaSuccess) {}
        cudaGetLastError();
    }
    begun = true;
    honest(a, b, out, n, stream);
}
