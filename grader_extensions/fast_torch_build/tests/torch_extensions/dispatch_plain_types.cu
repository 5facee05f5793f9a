// extension: headers=light
// call: forward(int32[40])
// call: forward(int64[5, 5])
// call: forward(int8[17])
// call: forward(uint8[17])
// call: forward(int16[9])
// call: forward(float32[30])
// raises: forward(bool[4])
// call: popcount(int32[100])
// call: popcount(uint8[100])
// call: popcount(int64[3, 4])
// raises: popcount(float32[3])
// Every plain type, and every integral one, goes through a kernel, and a type that is not dispatched says so.
#include <torch/types.h>
#include <torch/extension.h>

namespace {

template <typename scalar_t>
__global__ void absolute(scalar_t* data, int64_t count) {
    auto i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count && data[i] < static_cast<scalar_t>(0)) data[i] = static_cast<scalar_t>(-data[i]);
}

template <typename scalar_t>
__global__ void popcount_kernel(const scalar_t* x, int* y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) {
        const unsigned long long bits = static_cast<unsigned long long>(x[i]);
        y[i] = sizeof(scalar_t) == 8 ? __popcll(bits) : __popc(static_cast<unsigned>(bits));
    }
}

}  // namespace

torch::Tensor forward(const torch::Tensor& x) {
    auto out = x.clone();
    AT_DISPATCH_ALL_TYPES(out.scalar_type(), "absolute", [&] {
        absolute<<<dim3((out.numel() + 63) / 64), dim3(64)>>>(out.data_ptr<scalar_t>(), out.numel());
    });
    return out;
}

torch::Tensor popcount(torch::Tensor x) {
    auto y = torch::zeros(x.sizes(), torch::TensorOptions().dtype(torch::kInt32).device(x.device()));
    int n = x.numel();
    AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "popcount", ([&] {
                                   popcount_kernel<scalar_t><<<(n + 31) / 32, 32>>>(x.data_ptr<scalar_t>(), y.data_ptr<int>(), n);
                               }));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "functions of any plain type";
    m.def("forward", &forward, "absolute value");
    m.def("popcount", &popcount, "number of set bits");
}
