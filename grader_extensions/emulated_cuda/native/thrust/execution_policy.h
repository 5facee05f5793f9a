// Thrust's own, from the toolkit, and the policy of the device.
#pragma once
#include_next <thrust/execution_policy.h>

#include "system/cuda/execution_policy.h"
