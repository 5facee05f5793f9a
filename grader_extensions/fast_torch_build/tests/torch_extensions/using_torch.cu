// extension: headers=light
// call: forward(float32[4, 8], float32[8, 3])
// call: gated(float32[4, 8])
// `using namespace torch` and bare names of its functions.
#include <torch/torch.h>
#include <torch/extension.h>

using namespace torch;

__global__ void gate_kernel(const float* x, float* y, int rows, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * half) {
        int row = i / half, col = i % half;
        float left = x[row * 2 * half + col], right = x[row * 2 * half + half + col];
        y[i] = left * (1.f / (1.f + expf(-right)));
    }
}

Tensor forward(const Tensor& x, const Tensor& w) {
    Tensor h = matmul(x, w);
    auto r = relu(h) + sigmoid(h) * tanh(h);
    return where(r > 0, r, torch::zeros_like(r));
}

Tensor gated(Tensor x) {
    const int rows = x.size(0), half = x.size(1) / 2;
    Tensor y = torch::empty({rows, half}, x.options());
    gate_kernel<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, half);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "forward");
    m.def("gated", &gated, "gated linear unit");
}
