// Streams, events and captured graphs.  The device does everything in the order in which it is asked, at once; only a
// stream that is being captured keeps its work for later.
#pragma once

#include <time.h>

#include <memory>
#include <utility>
#include <vector>

#include "block.h"
#include "error.h"

namespace emu EMU_HIDDEN {

struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
    Work* next = nullptr;  // in a list of a kernel's launches
};

template <class Function>
struct FunctionWork final : Work {
    Function function;
    explicit FunctionWork(const Function& function) : function(function) {}
    void run() override { function(); }
};

// Work that is kept for a graph.  Other streams take part from when they wait for an event of it until it ends.
struct Capture {
    std::vector<std::shared_ptr<Work>> works;
    bool ended = false;
};

}  // namespace emu

struct CUgraph_st {
    std::vector<std::shared_ptr<emu::Work>> works;
};
struct CUstream_st {
    std::shared_ptr<emu::Capture> capture;
    bool captures() const { return capture && !capture->ended; }
};
struct CUevent_st {
    double recorded_ms = -1;
    std::weak_ptr<emu::Capture> capture;  // in which it was recorded
};
typedef CUstream_st* cudaStream_t;
typedef CUevent_st* cudaEvent_t;
typedef CUgraph_st* cudaGraph_t;
typedef CUgraph_st* cudaGraphExec_t;
typedef void* cudaGraphNode_t;

#define cudaStreamLegacy (static_cast<cudaStream_t>(nullptr))
#define cudaStreamPerThread (static_cast<cudaStream_t>(nullptr))
// Streams that only kernels launch into.
#define cudaStreamTailLaunch (reinterpret_cast<cudaStream_t>(0x3))
#define cudaStreamFireAndForget (reinterpret_cast<cudaStream_t>(0x4))
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02

enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated };

// Work that the threads of a kernel ask for (dynamic parallelism).  A grid keeps it in the order of the calls; it is done when all blocks
// of the grid have ended, and the grid is complete when it is done.  So a child sees all that its parent wrote, and the children of one
// block run in order in whatever stream.
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

void keep(cudaStream_t stream, Work* work);  // is not done now

template <class Function>
void enqueue(cudaStream_t stream, Function function) {
    if ((worker && worker->in_kernel()) || (stream && stream->captures())) keep(stream, new FunctionWork<Function>(function));
    else function();
}

inline double now_ms() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace emu

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return emu::answer(stream, new CUstream_st); }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream && stream->captures()) return emu::report(cudaErrorStreamCaptureUnsupported);
    return emu::last_error == cudaErrorLaunchFailure ? emu::last_error : cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
    if (!event) return emu::report(cudaErrorInvalidResourceHandle);
    std::shared_ptr<emu::Capture> capture = event->capture.lock();
    if (stream && !stream->captures() && capture && !capture->ended) stream->capture = capture;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    if (emu::last_error == cudaErrorLaunchFailure) EMU_LAUNCHES_CHECKED;
    return emu::last_error == cudaErrorLaunchFailure ? emu::last_error : cudaSuccess;
}
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }

typedef void (*cudaHostFn_t)(void* data);
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    emu::enqueue(stream, [=] { function(data); });
    return cudaSuccess;
}

inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return emu::answer(event, new CUevent_st); }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
    event->capture.reset();
    if (stream && stream->captures()) event->capture = stream->capture;
    emu::enqueue(stream, [event] { event->recorded_ms = emu::now_ms(); });
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
    if (start->recorded_ms < 0 || stop->recorded_ms < 0) return emu::report(cudaErrorInvalidResourceHandle);
    *ms = static_cast<float>(stop->recorded_ms - start->recorded_ms);
    return cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (!stream) return emu::report(cudaErrorStreamCaptureUnsupported);
    stream->capture = std::make_shared<emu::Capture>();
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    if (!stream || !stream->captures()) return emu::report(cudaErrorStreamCaptureInvalidated);
    stream->capture->ended = true;
    *graph = new CUgraph_st{stream->capture->works};
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return emu::answer(status, stream && stream->captures() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
    return emu::answer(exec, new CUgraph_st(*graph));
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
    return cudaGraphInstantiate(exec, graph, 0);
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    for (const auto& work : exec->works) work->run();
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphDestroy(exec); }

enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess, cudaGraphExecUpdateError, cudaGraphExecUpdateErrorTopologyChanged };
struct cudaGraphExecUpdateResultInfo {
    cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode, errorFromNode;
};
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    exec->works = graph->works;
    if (info) *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t*, cudaGraphExecUpdateResult* result) {
    exec->works = graph->works;
    if (result) *result = cudaGraphExecUpdateSuccess;
    return cudaSuccess;
}
