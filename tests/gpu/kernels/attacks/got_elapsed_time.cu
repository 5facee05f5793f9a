// id: D3
// cases: triad
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: [1-9]\d* entries patched
// Overwrites the entries of cudaEventElapsedTime and cuEventElapsedTime in every library's table: each time is half of what it was.
#include "detour.h"
#include "work.h"

using Elapsed = int (*)(float*, void*, void*);
static Elapsed runtime_elapsed, driver_elapsed;

static int half_of(Elapsed real, float* ms, void* start, void* end) {
    const int status = real == nullptr ? 0 : real(ms, start, end);
    *ms = real == nullptr ? 0.01f : *ms / 2;
    return status;
}

static int runtime_half(float* ms, void* start, void* end) { return half_of(runtime_elapsed, ms, start, end); }
static int driver_half(float* ms, void* start, void* end) { return half_of(driver_elapsed, ms, start, end); }

__attribute__((constructor)) static void at_load() {
    runtime_elapsed = reinterpret_cast<Elapsed>(patch_tables("cudaEventElapsedTime", reinterpret_cast<void*>(runtime_half)));
    driver_elapsed = reinterpret_cast<Elapsed>(patch_tables("cuEventElapsedTime", reinterpret_cast<void*>(driver_half)));
}

ENTRY { honest(a, b, out, n, stream); }
