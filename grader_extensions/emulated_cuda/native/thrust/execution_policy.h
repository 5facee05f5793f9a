// Thrust's own, from the toolkit, and the policy of the device.
#pragma once
#include_next <thrust/execution_policy.h>

#include "../emu/libraries/thrust_policy.h"
