// Torch for one job: what all need, and what its sources name.
#pragma once
#include <grader/light.h>
#include <grader/named.h>

#include <ATen/TensorOperators.h>
