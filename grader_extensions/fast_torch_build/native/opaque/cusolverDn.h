// Names the handle, for declarations; a source that uses the library gets its own header.
#pragma once
#include "cusolver_common.h"
typedef struct cusolverDnContext* cusolverDnHandle_t;
