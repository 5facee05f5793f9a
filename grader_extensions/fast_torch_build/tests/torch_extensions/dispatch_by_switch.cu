// extension: headers=light
// call: forward(float32[20])
// call: forward(float64[20])
// call: forward(int32[20])
// raises: forward(int64[20])
// The dispatch written by hand, with a macro of one's own around it.
#include <torch/extension.h>

template <typename T>
__global__ void cube(const T* x, T* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i] * x[i];
}

#define LAUNCH(T) cube<T><<<(n + 7) / 8, 8>>>(x.data_ptr<T>(), y.data_ptr<T>(), n)

torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int n = x.numel();
    switch (x.scalar_type()) {
        case torch::ScalarType::Float:
            LAUNCH(float);
            break;
        case at::ScalarType::Double:
            LAUNCH(double);
            break;
        case c10::kInt:
            LAUNCH(int32_t);
            break;
        default:
            TORCH_CHECK(false, "cube: no kernel for ", x.scalar_type());
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "x ** 3"); }
