// id: M3
// cases: brief_triad FLOOD=allocated; brief_triad FLOOD=registered
// expect: MEMORY_LIMIT_EXCEEDED HOST_MEMORY
// Pins host memory until it is refused or has 24 GiB, and touches it: memory of the driver's making, or the process's own, registered.
#include <cstring>

#include <sys/mman.h>

#include "parameters.h"
#include "work.h"

enum Flood { allocated, registered };

static char* pin(size_t bytes) {
    void* memory = nullptr;
    if (FLOOD == allocated) return cudaMallocHost(&memory, bytes) == cudaSuccess ? static_cast<char*>(memory) : nullptr;
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    return cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess ? static_cast<char*>(memory) : nullptr;
}

ENTRY {
    static bool begun = false;
    const size_t bytes = size_t{256} << 20;
    int count = 0;
    for (; !begun && count < 96; ++count) {
        char* memory = pin(bytes);
        if (memory == nullptr) break;
        memset(memory, count, bytes);
    }
    if (!begun) fprintf(stderr, "pinned %d times 256 MiB\n", count);
    begun = true;
    cudaGetLastError();
    honest(a, b, out, n, stream);
}
