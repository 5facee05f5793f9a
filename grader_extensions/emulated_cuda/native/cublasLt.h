// Types of cuBLASLt.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>
#include <cublas_v2.h>

typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque* cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque* cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque* cublasLtMatmulPreference_t;
