// extension: headers=full
// call: forward(float32[5])
// A differentiable function written in C++ needs torch's autograd.
#include <torch/extension.h>

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

__global__ void square(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}

class Square : public torch::autograd::Function<Square> {
  public:
    static torch::Tensor forward(AutogradContext* context, torch::Tensor x) {
        context->save_for_backward({x});
        auto y = torch::empty_like(x);
        square<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
        return y;
    }

    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        return {2 * context->get_saved_variables()[0] * grads[0]};
    }
};

torch::Tensor forward(torch::Tensor x) { return Square::apply(x); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
