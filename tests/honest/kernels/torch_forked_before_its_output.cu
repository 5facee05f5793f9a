// problem: scale_add
// why: a side stream that was forked before the output was allocated writes half of it; whoever fills fresh memory must not do so beside it
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

torch::Tensor forward(double alpha, torch::Tensor x, torch::Tensor y) {
    static const at::cuda::CUDAStream side = at::cuda::getStreamFromPool();
    const at::cuda::CUDAStream current = at::cuda::getCurrentCUDAStream();
    at::cuda::CUDAEvent forked, joined;
    forked.record(current);
    forked.block(side);
    torch::Tensor out = torch::empty_like(x);
    const int64_t half = x.numel() / 2, rest = x.numel() - half;
    const float* from = x.data_ptr<float>();
    const float* more = y.data_ptr<float>();
    float* to = out.data_ptr<float>();
    if (half > 0)
        scale_add<<<static_cast<unsigned>((half + 255) / 256), 256, 0, side>>>(static_cast<float>(alpha), from, more, to, half);
    scale_add<<<static_cast<unsigned>((rest + 255) / 256), 256, 0, current>>>(
        static_cast<float>(alpha), from + half, more + half, to + half, rest);
    joined.record(side);
    joined.block(current);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
