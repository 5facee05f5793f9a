// Part of cuRAND.
#pragma once
#include <curand_kernel.h>
