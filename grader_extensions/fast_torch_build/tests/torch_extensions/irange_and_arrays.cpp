// extension: headers=light
// call: forward(float32[4, 5])
// call: padded_shape(float32[4, 5], [1, 2])
// c10's ranges and array references, accessors on the host.
#include <torch/extension.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/irange.h>
#include <numeric>

static int64_t product(c10::IntArrayRef sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

torch::Tensor forward(const torch::Tensor& x) {
    TORCH_CHECK(product(x.sizes()) == x.numel());
    auto y = torch::zeros_like(x);
    auto in = x.accessor<float, 2>();
    auto out = y.accessor<float, 2>();
    for (const auto i : c10::irange(in.size(0))) {
        float running = 0;
        for (const auto j : c10::irange(in.size(1))) {
            running += in[i][j];
            out[i][j] = running;
        }
    }
    return y;
}

std::vector<int64_t> padded_shape(const torch::Tensor& x, std::vector<int64_t> padding) {
    at::IntArrayRef extra(padding);
    c10::SmallVector<int64_t, 4> shape(x.sizes().begin(), x.sizes().end());
    for (size_t d = 0; d < extra.size() && d < shape.size(); ++d) shape[d] += 2 * extra[d];
    return std::vector<int64_t>(shape.begin(), shape.end());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("padded_shape", &padded_shape);
}
