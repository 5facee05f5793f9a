// cudaError_t and the error that a failed call leaves behind for cudaGetLastError.
#pragma once

#include "qualifiers.h"

// Every error: its name, its number, and its text.
#define EMU_ERRORS                                                                                                                     \
    EMU_ERROR(cudaSuccess, 0, "no error")                                                                                              \
    EMU_ERROR(cudaErrorInvalidValue, 1, "invalid argument")                                                                            \
    EMU_ERROR(cudaErrorMemoryAllocation, 2, "out of memory")                                                                           \
    EMU_ERROR(cudaErrorInitializationError, 3, "initialization error")                                                                 \
    EMU_ERROR(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                                      \
    EMU_ERROR(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                                                \
    EMU_ERROR(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                                     \
    EMU_ERROR(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                                             \
    EMU_ERROR(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                                \
    EMU_ERROR(cudaErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type")                                  \
    EMU_ERROR(cudaErrorLaunchMaxDepthExceeded, 65, "launch would exceed maximum depth of nested launches")                             \
    EMU_ERROR(cudaErrorLaunchPendingCountExceeded, 69, "launch failed because launch would exceed maximum number of pending launches") \
    EMU_ERROR(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                                           \
    EMU_ERROR(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                            \
    EMU_ERROR(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                                   \
    EMU_ERROR(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                          \
    EMU_ERROR(cudaErrorNotReady, 600, "device not ready")                                                                              \
    EMU_ERROR(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                                \
    EMU_ERROR(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                                           \
    EMU_ERROR(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                                  \
    EMU_ERROR(cudaErrorAssert, 710, "device-side assert triggered")                                                                    \
    EMU_ERROR(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                               \
    EMU_ERROR(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                                        \
    EMU_ERROR(cudaErrorNotSupported, 801, "operation not supported")                                                                   \
    EMU_ERROR(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                              \
    EMU_ERROR(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")                       \
    EMU_ERROR(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                                                            \
    EMU_ERROR(cudaErrorUnknown, 999, "unknown error")
#define EMU_ERROR(name, number, text) name = number,
enum cudaError { EMU_ERRORS };
#undef EMU_ERROR
typedef enum cudaError cudaError_t;

namespace emu {

struct ErrorText {
    cudaError_t code;
    const char* name;
    const char* text;
};

#define EMU_ERROR(name, number, text) {name, #name, text},
inline constexpr ErrorText error_texts[] = {EMU_ERRORS};
#undef EMU_ERROR

inline const ErrorText* find_error(cudaError_t code) {
    for (const ErrorText& entry : error_texts)
        if (entry.code == code) return &entry;
    return nullptr;
}

inline EMU_THREAD_LOCAL cudaError_t last_error = cudaSuccess;
inline EMU_THREAD_LOCAL char broken_limit[128] = "";  // by the last launch that failed, where that is the last error

// Gives a call's answer, which cannot fail.
template <class T, class Value>
cudaError_t answer(T* out, Value value) {
    *out = value;
    return cudaSuccess;
}

// Remembers a failure for cudaGetLastError, as every runtime call does, and hands it on.
inline cudaError_t report(cudaError_t code) {
    if (code != cudaSuccess) {
        last_error = code;
        broken_limit[0] = 0;
    }
    return code;
}

}  // namespace emu

inline const char* cudaGetErrorName(cudaError_t code) {
    const emu::ErrorText* entry = emu::find_error(code);
    return entry ? entry->name : "unrecognized error code";
}

inline const char* cudaGetErrorString(cudaError_t code) {
    const emu::ErrorText* entry = emu::find_error(code);
    return entry ? entry->text : "unrecognized error code";
}

#ifdef EMU_SANITIZE
namespace emu EMU_HIDDEN {
namespace sanitizer {
inline bool launch_unchecked = false;         // one has failed since the host last asked
inline void (*report_unchecked)() = nullptr;  // set by the first that fails
}  // namespace sanitizer
}  // namespace emu
#define EMU_LAUNCHES_CHECKED ::emu::sanitizer::launch_unchecked = false
#else
#define EMU_LAUNCHES_CHECKED static_cast<void>(0)
#endif

inline cudaError_t cudaPeekAtLastError() {
    EMU_LAUNCHES_CHECKED;
    return emu::last_error;
}

inline cudaError_t cudaGetLastError() {
    cudaError_t code = cudaPeekAtLastError();
    // A launch that died leaves the context unusable: the real runtime repeats that error for ever.
    if (code != cudaErrorLaunchFailure) emu::last_error = cudaSuccess;
    return code;
}
