// The policy of the device.
#pragma once
#include <thrust/execution_policy.h>
