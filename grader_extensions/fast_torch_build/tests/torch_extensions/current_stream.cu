// extension: headers=light
// call: forward(float32[200], float32[200])
// call: two_streams(float32[64])
// Launches on torch's current stream, on one of its pool, and the check that follows every launch.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

__global__ void add_kernel(const float* a, const float* b, float* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void scale_kernel(float* a, float factor, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] *= factor;
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    const int n = a.numel();
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    add_kernel<<<(n + 63) / 64, 64, 0, stream>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return c;
}

torch::Tensor two_streams(torch::Tensor a) {
    auto out = a.clone();
    c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
    {
        c10::cuda::CUDAStreamGuard guard(side);
        scale_kernel<<<1, 32, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(out.data_ptr<float>(), 2.0f, out.numel());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    side.synchronize();
    scale_kernel<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>(), 0.5f, out.numel());
    C10_CUDA_CHECK(cudaStreamSynchronize(at::cuda::getCurrentCUDAStream().stream()));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &add, "a + b");
    m.def("two_streams", &two_streams);
}
