// Waiting on the host.
#include <cstdint>
#include <ctime>

[[maybe_unused]] static inline int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

[[maybe_unused]] static inline void spin_us(int64_t us) {
    for (const int64_t end = now_ns() + us * 1000; now_ns() < end;) {}
}
