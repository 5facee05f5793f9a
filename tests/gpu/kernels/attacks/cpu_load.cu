// id: F2
// cases: triad
// expect: ACCEPTED no gain | DISQUALIFIED | RUNTIME_ERROR
// from: originals/raw.cu
// Two dozen threads spin between its own calls, so that whoever launches the baseline has to share the host.
#include <atomic>
#include <thread>

#include <unistd.h>

#include "work.h"

static std::atomic<bool> quiet{false};

ENTRY {
    static bool begun = false;
    for (int count = 0; !begun && count < 24; ++count) {
        std::thread([] {
            for (;;)
                if (quiet) usleep(20);
        }).detach();
    }
    begun = true;
    quiet = true;
    honest(a, b, out, n, stream);
    cudaStreamSynchronize(stream);
    quiet = false;
}
