// Types of cuSOLVER.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <cusolver_common.h>

typedef struct cusolverDnContext* cusolverDnHandle_t;
