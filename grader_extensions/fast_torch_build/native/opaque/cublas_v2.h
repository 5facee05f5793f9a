// Names the handle, for declarations; a source that uses the library gets its own header.
#pragma once
typedef struct cublasContext* cublasHandle_t;
enum cublasStatus_t : int;
