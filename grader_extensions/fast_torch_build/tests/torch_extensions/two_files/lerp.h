#pragma once
#include <torch/types.h>

// Defined in kernel.cu.
torch::Tensor lerp_cuda(const torch::Tensor& a, const torch::Tensor& b, double weight);
