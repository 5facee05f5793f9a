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
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02

enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated };

namespace emu EMU_HIDDEN {

void keep(cudaStream_t stream, Work* work);  // for a graph

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
