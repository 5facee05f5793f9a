// One turn of the judge's clock on a GPU, without an interpreter in it: go, publish, wait for done, snapshot (DESIGN section 4).
//
// `go` comes first: what the runner launches waits on the device until the inputs lie there, so that a host's slow launch is in nobody's
// time. Where scalars are inputs, a launch needs their values: then the clock runs first, and `go` and the launch are inside it, for the
// subject as for the baseline and for null runs. The clock is the device's own, by events of this process, and runs from before the first byte of the inputs is there.
//
// A run ends on the device: behind its launches the runner's stream writes a number, for which this process's stream waits before it copies
// the outputs out. No host is inside the clock then. `done` in the gate says when the host may go on. Where the number is missing after
// `done`, or the runner does not answer, this process writes it, as often as it takes (docs/decisions/0074).
//
// Trusted, and only ever loaded by the judge. Of the gate it reads `done` and nothing else; a hostile runner can write there what it likes
// and is either late, gone, or in violation. The driver's functions are handed in, so nothing of CUDA is needed to compile this.
#include <poll.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct Driver {
    int (*copy)(uint64_t to, uint64_t from, size_t size_bytes, void* stream);           // cuMemcpyDtoDAsync_v2
    int (*fill)(uint64_t to, unsigned int value, size_t count, void* stream);           // cuMemsetD32Async
    int (*synchronize)();                                                               // cuCtxSynchronize
    int (*unpin)();                                                                     // cuCtxResetPersistingL2Cache
    int (*write)(void* stream, uint64_t to, uint64_t value, unsigned int flags);        // cuStreamWriteValue64_v2
    int (*record)(void* event, void* stream);                                           // cuEventRecord
    int (*elapsed)(float* milliseconds, void* begin, void* end);                        // cuEventElapsedTime
    int (*hold)(void* stream, uint64_t at, uint64_t value, unsigned int flags);         // cuStreamWaitValue64_v2
    int (*query)(void* event);                                                          // cuEventQuery
};

constexpr unsigned int UNTIL_EQUAL = 1;        // CU_STREAM_WAIT_VALUE_EQ
constexpr int64_t FINISHED_LIMIT_NS = 100000;  // after `done`: the number was written before it, or never
constexpr int64_t RELEASE_LIMIT_NS = 10000000000;
constexpr int LAUNCH_TIMEOUT = 702;            // CUDA_ERROR_LAUNCH_TIMEOUT

struct Copy {
    uint64_t to, from, size_bytes;
};

enum Ending { DONE = 0, TIMED_OUT = 1, GONE = 2, VIOLATED = 3 };

struct Turn {
    const Copy* publish;
    uint64_t publish_count;
    const Copy* snapshot;
    uint64_t snapshot_count;
    uint64_t evict;  // an address whose overwriting leaves nothing of the inputs in the cache
    uint64_t evict_bytes;
    uint64_t published;  // an address that becomes `number` when the inputs lie there
    uint64_t shade_count;  // how often `evict` is overwritten before the inputs are published: time in which a runner can launch
    void* begin;  // events
    void* end;
    uint64_t* go;
    const uint64_t* done;
    uint64_t number;
    uint64_t previous;
    int64_t limit_ns;
    int link;  // the runner's end is closed when this becomes readable
    // Out:
    int ending;
    int code;  // the first CUresult that was no success
    int64_t duration_ns;
    // In:
    const double* scalars;  // what goes by value, published with `go`
    uint64_t scalar_count;
    double* scalars_to;
    uint64_t finished;  // an address that becomes `number` when what the runner launched has ended
    void* reached;      // an event
    void* releasing;    // a stream that waits for no other
};

static int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

static bool closed(int link) {
    pollfd one{link, POLLIN, 0};
    return poll(&one, 1, 0) > 0;  // a signal says nothing of the link
}

static Ending wait(const Turn& turn) {
    const int64_t begun = now_ns();
    int64_t looked = begun;
    for (;;) {
        const uint64_t seen = __atomic_load_n(turn.done, __ATOMIC_ACQUIRE);
        if (seen == turn.number) return DONE;
        if (seen != turn.previous) return VIOLATED;
        const int64_t now = now_ns();
        if (now - begun > turn.limit_ns) return TIMED_OUT;
        if (now - looked > 1000000) {
            looked = now;
            // Its last answer counts.
            if (closed(turn.link)) return __atomic_load_n(turn.done, __ATOMIC_ACQUIRE) == turn.number ? DONE : GONE;
        }
    }
}

// Whether the stream has seen the number, by now or soon.
static bool reached(const Driver& driver, const Turn& turn) {
    const int64_t end = now_ns() + FINISHED_LIMIT_NS;
    while (driver.query(turn.reached) != 0) {
        if (now_ns() > end) return false;
    }
    return true;
}

// Lets the stream go on, without the runner. A kernel of it may overwrite the number as fast as it can, so it is written until it was seen.
static int release(const Driver& driver, const Turn& turn) {
    for (const int64_t end = now_ns() + RELEASE_LIMIT_NS; now_ns() < end;) {
        if (const int code = driver.write(turn.releasing, turn.finished, turn.number, 0); code != 0) return code;
        if (reached(driver, turn)) return 0;
    }
    return LAUNCH_TIMEOUT;
}

void take_turn(const Driver* driver, Turn* turn) {
    auto checked = [turn](int code) {
        if (code != 0 && turn->code == 0) turn->code = code;
    };
    checked(driver->unpin());
    checked(driver->fill(turn->evict, 0, turn->evict_bytes / 4, nullptr));
    if (turn->scalar_count == 0) {
        __atomic_store_n(turn->go, turn->number, __ATOMIC_RELEASE);
        for (uint64_t i = 0; i < turn->shade_count; ++i) checked(driver->fill(turn->evict, 0, turn->evict_bytes / 4, nullptr));
        checked(driver->record(turn->begin, nullptr));
    } else {
        checked(driver->record(turn->begin, nullptr));
        checked(driver->synchronize());  // the clock runs
        for (uint64_t i = 0; i < turn->scalar_count; ++i) turn->scalars_to[i] = turn->scalars[i];
        __atomic_store_n(turn->go, turn->number, __ATOMIC_RELEASE);
    }
    for (uint64_t i = 0; i < turn->publish_count; ++i) {
        checked(driver->copy(turn->publish[i].to, turn->publish[i].from, turn->publish[i].size_bytes, nullptr));
    }
    checked(driver->fill(turn->evict, 0, turn->evict_bytes / 4, nullptr));
    checked(driver->write(nullptr, turn->published, turn->number, 0));
    checked(driver->hold(nullptr, turn->finished, turn->number, UNTIL_EQUAL));
    checked(driver->record(turn->reached, nullptr));
    for (uint64_t i = 0; i < turn->snapshot_count; ++i) {
        checked(driver->copy(turn->snapshot[i].to, turn->snapshot[i].from, turn->snapshot[i].size_bytes, nullptr));
    }
    checked(driver->record(turn->end, nullptr));
    turn->ending = wait(*turn);
    if (turn->ending != DONE || !reached(*driver, *turn)) {
        if (const int code = release(*driver, *turn); code != 0) return checked(code);  // nothing that waits for this stream would return
    }
    checked(driver->synchronize());
    float milliseconds = 0;
    checked(driver->elapsed(&milliseconds, turn->begin, turn->end));
    turn->duration_ns = int64_t(double(milliseconds) * 1e6);
}

}  // extern "C"
