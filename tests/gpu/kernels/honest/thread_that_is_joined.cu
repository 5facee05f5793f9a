// twin of: background_thread
// cases: triad
// expect: ACCEPTED
// A thread of its own launches the work, and the call waits for the thread.
#include <thread>

#include "work.h"

ENTRY {
    std::thread([=] { honest(a, b, out, n, stream); }).join();
}
