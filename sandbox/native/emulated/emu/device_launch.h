// Work that the threads of a kernel ask for (dynamic parallelism).  A grid keeps it in the order of the calls; it is done when all blocks
// of the grid have ended, and the grid is complete when it is done.  So a child sees all that its parent wrote, and the children of one
// block run in order in whatever stream.  Included by stream.h.
#pragma once

namespace emu EMU_HIDDEN {

inline constexpr unsigned most_nested_launches = 24;
inline uint64_t most_pending_launches = 2048;  // cudaLimitDevRuntimePendingLaunchCount
inline uint64_t pending_launches = 0;

// In order, and owned.  A list of our own costs g++ nothing where no kernel launches; the containers of C++ would.
struct Works {
    Work *first = nullptr, *last = nullptr;

    Works() = default;
    Works(const Works&) = delete;
    ~Works() {
        while (Work* work = take()) delete work;
    }
    void add(Work* work) {
        (first ? last->next : first) = work;
        last = work;
    }
    Work* take() {
        Work* work = first;
        if (!work) return nullptr;
        first = work->next;
        __atomic_fetch_sub(&pending_launches, 1, __ATOMIC_RELAXED);
        return work;
    }
    void put_before(Works& others) {
        if (!first) return;
        last->next = others.first;
        if (!others.first) others.last = last;
        others.first = first;
        first = nullptr;
    }
    void run_first() {
        std::unique_ptr<Work> work(take());
        work->run();
    }
};

struct DeviceQueue {
    unsigned depth;  // 0: of a grid that the host launched
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    Works works{}, tail_launches{};

    explicit DeviceQueue(unsigned depth) : depth(depth) {}
};

inline EMU_THREAD_LOCAL unsigned launch_depth = 0;
// Of the grid whose tail launch is being run: what that one launches there goes before the rest.
inline EMU_THREAD_LOCAL Works* tails_of_parent = nullptr;

inline void enqueue_on_device(cudaStream_t stream, Work* work) {
    DeviceQueue* queue = worker->launch()->queue;
    bool nested = queue->depth < most_nested_launches;
    if (nested && __atomic_add_fetch(&pending_launches, 1, __ATOMIC_RELAXED) <= most_pending_launches) {
        pthread_mutex_lock(&queue->mutex);
        (stream == cudaStreamTailLaunch ? queue->tail_launches : queue->works).add(work);
        pthread_mutex_unlock(&queue->mutex);
        return;
    }
    if (nested) __atomic_fetch_sub(&pending_launches, 1, __ATOMIC_RELAXED);
    delete work;
    report(nested ? cudaErrorLaunchPendingCountExceeded : cudaErrorLaunchMaxDepthExceeded);
}

// A tail launch takes its parent's place: it may launch the next, and so on without end, each at the same depth.
EMU_OUTLINE void run_launches_of(DeviceQueue& queue) {
    Works* before = std::exchange(tails_of_parent, nullptr);
    launch_depth = queue.depth + 1;
    while (queue.works.first) queue.works.run_first();
    launch_depth = queue.depth;
    if (before) return queue.tail_launches.put_before(*before);
    while (queue.tail_launches.first) {
        tails_of_parent = &queue.tail_launches;
        queue.tail_launches.run_first();
    }
    tails_of_parent = nullptr;
}

}  // namespace emu
