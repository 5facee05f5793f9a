// The bf16 types under their older name.
#pragma once
#include <cuda_bf16.h>
