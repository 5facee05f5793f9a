// A train of the judge's clock on a GPU, without an interpreter in it: release, publish, wait for the end, snapshot, once for each of its runs
// (DESIGN section 4).
//
// The runner enqueues all runs of a train first; each waits on the device until its inputs lie there. Then the judge enqueues one run after the
// other, each when the one before it has ended, and holds the part inside the clock back by a word of its own until all of it is enqueued: so
// no host is inside the clock, and launches do not overlap. What goes before takes the device longer than the host takes to enqueue, so the
// device seldom waits: a stream that does costs a switch of processes. A kernel that waits for its own device can't be enqueued ahead; after
// a while it is launched inside the clock. Behind its last run the runner waits once more, as it does behind each: without that wait the GPU
// goes back to this process 2 us sooner (H100). Where scalars are inputs, a launch needs their values: then a train has one run, and `go`
// follows the first event, for all alike. That launch is inside the clock, where the cache is overwritten for 0.5 ms before inputs and poison are
// copied. The clock is by events of this process: it starts before the first byte of a run's inputs is there and stops behind its outputs' copy.
//
// Before each run the persisting part of the L2 cache is reset, and all of it is overwritten. The reset waits for every stream of this process,
// and all that is enqueued later waits for the reset: that is why nothing of this process is held back meanwhile.
//
// A run ends on the device: behind its launches the runner's stream writes the run's number, for which this process's stream waits before it
// copies the outputs out. `done` in the gate says when the host may go on. Where a number is missing after `done`, or the runner does not
// answer, this process writes it, as often as it takes (docs/decisions/0074).
//
// Trusted, and only ever loaded by the judge. Of the gate it reads `done` and `launched` and nothing else; a hostile runner can write there
// what it likes and is either late, gone, or in violation. The driver's functions are handed in, so nothing of CUDA is needed to compile this.
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

constexpr int NOT_READY = 600;                 // CUDA_ERROR_NOT_READY
constexpr unsigned int UNTIL_EQUAL = 1;        // CU_STREAM_WAIT_VALUE_EQ
constexpr int LATE_EVICTIONS = 8;              // 64 us each on an H200: launches took up to 0.3 ms longer than copies and the last of them
constexpr int64_t FINISHED_LIMIT_NS = 100000;  // after `done`: the number was written before it, or never
constexpr int64_t RELEASE_LIMIT_NS = 10000000000;
constexpr int LAUNCH_TIMEOUT = 702;            // CUDA_ERROR_LAUNCH_TIMEOUT

struct Copy {
    uint64_t to, from, size_bytes;
};

enum Ending { DONE = 0, TIMED_OUT = 1, GONE = 2, VIOLATED = 3 };

struct Run {
    const Copy* publish;
    uint64_t publish_count;
    const Copy* snapshot;
    uint64_t snapshot_count;
    void* begin;  // events
    void* reached;
    void* end;
    uint64_t fill_count;  // small operations before it: how many there were decides, in a cycle of four, how long those of a run take
    uint64_t copy_count;
    int64_t duration_ns;  // out
};

struct Train {
    Run* runs;
    uint64_t run_count;
    uint64_t evict;  // an address whose overwriting leaves nothing of the inputs in the cache
    uint64_t evict_bytes;
    uint64_t* start;     // a word of the host that the device reads; becomes `number` plus the run's index when a run may begin
    uint64_t spare;      // an address of two words of no use
    uint64_t published;  // an address that becomes `number` plus the run's index when the run's inputs lie there, and at last one more
    uint64_t finished;   // an address that becomes the same when what the runner launched has ended
    void* releasing;     // a stream that waits for no other
    uint64_t* go;
    const uint64_t* done;
    const uint64_t* launched;
    uint64_t number;
    uint64_t previous;
    int64_t launch_limit_ns;  // how long the train is held back for a runner that does not say that it has launched
    int64_t limit_ns;
    int link;              // the runner's end is closed when this becomes readable
    const double* scalars;  // what goes by value, published with `go`
    uint64_t scalar_count;
    double* scalars_to;
    // Out:
    int ending;
    int code;  // the first CUresult that was no success
    uint64_t begun;  // runs
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

class Clock {
  public:
    Clock(const Driver& driver, Train& train) : driver(driver), train(train) {}

    void take() {
        const bool late = train.scalar_count > 0;
        if (!late) {
            __atomic_store_n(train.go, train.number, __ATOMIC_RELEASE);
            await_launches();
        }
        begin_next(late);
        train.ending = follow();
        const bool ended = train.ending == DONE && train.begun == train.run_count && reached(train.runs[train.run_count - 1]);
        if (!ended && !release()) return;  // nothing that waits for the stream would return
        checked(driver.synchronize());
        for (uint64_t i = 0; i < train.run_count; ++i) {
            float milliseconds = 0;
            checked(driver.elapsed(&milliseconds, train.runs[i].begin, train.runs[i].end));
            train.runs[i].duration_ns = int64_t(double(milliseconds) * 1e6);
        }
    }

  private:
    const Driver& driver;
    Train& train;

    bool checked(int code) {
        if (code != 0 && train.code == 0) train.code = code;
        return code == 0;
    }

    void evict() { checked(driver.fill(train.evict, 0, train.evict_bytes / 4, nullptr)); }

    void copy(const Copy* copies, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) checked(driver.copy(copies[i].to, copies[i].from, copies[i].size_bytes, nullptr));
    }

    // Enqueues the next run and lets it begin. late: its scalars and `go` are published inside the clock.
    void begin_next(bool late = false) {
        const Run& run = train.runs[train.begun];
        const uint64_t number = train.number + train.begun;
        checked(driver.unpin());
        for (uint64_t i = 0; i < run.fill_count; ++i) checked(driver.fill(train.spare, 0, 1, nullptr));
        for (uint64_t i = 0; i < run.copy_count; ++i) checked(driver.copy(train.spare, train.spare + 8, 8, nullptr));
        evict();
        checked(driver.hold(nullptr, uint64_t(train.start), number, UNTIL_EQUAL));
        checked(driver.record(run.begin, nullptr));
        for (int i = 0; late && i < LATE_EVICTIONS; ++i) evict();
        copy(run.publish, run.publish_count);
        evict();
        checked(driver.write(nullptr, train.published, number, 0));
        checked(driver.hold(nullptr, train.finished, number, UNTIL_EQUAL));
        checked(driver.record(run.reached, nullptr));
        copy(run.snapshot, run.snapshot_count);
        checked(driver.record(run.end, nullptr));
        if (++train.begun == train.run_count) checked(driver.write(nullptr, train.published, number + 1, 0));
        __atomic_store_n(train.start, number, __ATOMIC_RELEASE);
        if (!late) return;
        while (driver.query(run.begin) == NOT_READY) {
        }
        for (uint64_t i = 0; i < train.scalar_count; ++i) train.scalars_to[i] = train.scalars[i];
        __atomic_store_n(train.go, train.number, __ATOMIC_RELEASE);
    }

    // Until the runner has launched the whole train, or has answered, or its time for that is over.
    void await_launches() {
        for (const int64_t end = now_ns() + train.launch_limit_ns; now_ns() < end;) {
            if (__atomic_load_n(train.launched, __ATOMIC_ACQUIRE) == train.number) return;
            if (__atomic_load_n(train.done, __ATOMIC_ACQUIRE) != train.previous) return;
        }
    }

    // Begins one run after the other, until the runner has answered.
    Ending follow() {
        const int64_t begun = now_ns();
        int64_t looked = begun;
        for (;;) {
            if (train.begun < train.run_count && driver.query(train.runs[train.begun - 1].end) == 0) begin_next();
            const uint64_t seen = __atomic_load_n(train.done, __ATOMIC_ACQUIRE);
            if (seen == train.number) return DONE;
            if (seen != train.previous) return VIOLATED;
            const int64_t now = now_ns();
            if (now - begun > train.limit_ns) return TIMED_OUT;
            if (now - looked > 1000000) {
                looked = now;
                // Its last answer counts.
                if (closed(train.link)) return __atomic_load_n(train.done, __ATOMIC_ACQUIRE) == train.number ? DONE : GONE;
            }
        }
    }

    // Whether the stream has seen a run's number, by now or soon.
    bool reached(const Run& run) {
        const int64_t end = now_ns() + FINISHED_LIMIT_NS;
        while (driver.query(run.reached) != 0) {
            if (now_ns() > end) return false;
        }
        return true;
    }

    // Lets the stream go on, without the runner. A kernel of it may overwrite a number as fast as it can, so it is written until it was seen.
    bool release() {
        const int64_t end = now_ns() + RELEASE_LIMIT_NS;
        for (uint64_t i = 0; i < train.run_count; ++i) {
            if (i == train.begun) begin_next();
            while (!reached(train.runs[i])) {
                if (now_ns() > end) return checked(LAUNCH_TIMEOUT);
                if (!checked(driver.write(train.releasing, train.finished, train.number + i, 0))) return false;
            }
        }
        return true;
    }
};

void take_train(const Driver* driver, Train* train) { Clock(*driver, *train).take(); }

}  // extern "C"
