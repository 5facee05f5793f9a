// The fp16 types under their older name.
#pragma once
#include <cuda_fp16.h>
