// Everything of the emulated runtime stands in one header.
#pragma once
#include <cuda_runtime.h>
