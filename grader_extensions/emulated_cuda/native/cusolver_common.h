// Types of cuSOLVER.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>

enum cusolverStatus_t : int { CUSOLVER_STATUS_SUCCESS, CUSOLVER_STATUS_NOT_INITIALIZED, CUSOLVER_STATUS_ALLOC_FAILED, CUSOLVER_STATUS_INVALID_VALUE };
enum cusolverEigMode_t { CUSOLVER_EIG_MODE_NOVECTOR, CUSOLVER_EIG_MODE_VECTOR };
