// Types of NVRTC.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>

typedef struct _nvrtcProgram* nvrtcProgram;
enum nvrtcResult { NVRTC_SUCCESS, NVRTC_ERROR_OUT_OF_MEMORY, NVRTC_ERROR_PROGRAM_CREATION_FAILURE, NVRTC_ERROR_INVALID_INPUT, NVRTC_ERROR_COMPILATION = 6 };
