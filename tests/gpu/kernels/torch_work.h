// The honest kernel as a torch extension.
#include <torch/extension.h>

#include "work.h"

[[maybe_unused]] static inline torch::Tensor honest_forward(torch::Tensor a, torch::Tensor b) {
    torch::Tensor out = torch::empty_like(a);
    honest(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.size(0), nullptr);
    return out;
}
