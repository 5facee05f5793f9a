// Asynchronous copies into shared memory: they are done when they are asked for.
#pragma once
#include "cuda_pipeline_primitives.h"
