// extension: headers=light
// call: forward(float32[2, 6, 4, 4], float32[6], float32[6], 3, 1e-5)
// raises: forward(float32[2, 6, 4, 4], float32[6], float32[6], 4, 1e-5)
// GroupNorm and Swish in one pass, several blocks of shared memory, `at::` names throughout.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

template <typename T>
__device__ T reduce_block(T value, T* scratch) {
    const int tid = threadIdx.x;
    scratch[tid] = value;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (tid < width) scratch[tid] += scratch[tid + width];
        __syncthreads();
    }
    const T total = scratch[0];
    __syncthreads();
    return total;
}

__global__ void group_norm_swish_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                                        float* __restrict__ y, int channels_per_group, int area, int groups, float eps) {
    extern __shared__ char memory[];
    float* scratch = reinterpret_cast<float*>(memory);
    const int size = channels_per_group * area;
    const int64_t start = (int64_t)blockIdx.x * size;
    const int first_channel = (blockIdx.x % groups) * channels_per_group;

    float sum = 0.f;
    for (int i = threadIdx.x; i < size; i += blockDim.x) sum += x[start + i];
    const float mean = reduce_block(sum, scratch) / size;
    float square = 0.f;
    for (int i = threadIdx.x; i < size; i += blockDim.x) square += (x[start + i] - mean) * (x[start + i] - mean);
    const float rstd = rsqrtf(reduce_block(square, scratch) / size + eps);

    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const int c = first_channel + i / area;
        const float v = (x[start + i] - mean) * rstd * weight[c] + bias[c];
        y[start + i] = v / (1.f + __expf(-v));
    }
}

at::Tensor group_norm_swish(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t groups, double eps) {
    TORCH_CHECK(x.device().type() == at::kCUDA, "x must be on a GPU");
    TORCH_CHECK(x.device() == weight.device() && x.get_device() == bias.get_device(), "all on one device");
    TORCH_CHECK(x.size(1) % groups == 0, x.size(1), " channels do not divide into ", groups, " groups");
    at::cuda::CUDAGuard guard(x.device());
    const auto xc = x.contiguous(at::MemoryFormat::Contiguous);
    auto y = at::empty_like(xc);
    const int64_t channels_per_group = x.size(1) / groups, area = x.size(2) * x.size(3);
    const int threads = 32;
    group_norm_swish_kernel<<<x.size(0) * groups, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        xc.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), channels_per_group, area, groups, eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &group_norm_swish); }
