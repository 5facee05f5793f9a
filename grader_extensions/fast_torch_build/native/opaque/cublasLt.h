// Names the handle, for declarations; a source that uses the library gets its own header.
#pragma once
typedef struct cublasLtContext* cublasLtHandle_t;
