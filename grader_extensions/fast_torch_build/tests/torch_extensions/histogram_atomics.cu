// extension: headers=light
// call: forward(int32[500] % 16, 16)
// call: forward(float32[300], 10)
// A privatised histogram; float inputs are binned between their minimum and maximum.
#include <torch/extension.h>

__global__ void histogram_kernel(const int* __restrict__ bins_of, int* __restrict__ counts, int n, int bins) {
    extern __shared__ int local[];
    for (int i = threadIdx.x; i < bins; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[bins_of[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(&counts[i], local[i]);
}

torch::Tensor histogram(torch::Tensor x, int bins) {
    torch::Tensor index;
    if (x.is_floating_point()) {
        const float low = x.min().item<float>();
        const float high = x.max().item<float>();
        index = ((x - low) * (bins / (high - low))).floor().clamp(0, bins - 1).to(torch::kInt);
    } else {
        index = x.toType(torch::kInt);
    }
    auto counts = torch::zeros({bins}, torch::dtype(torch::kInt32).device(x.device()));
    histogram_kernel<<<3, 64, bins * sizeof(int)>>>(index.data_ptr<int>(), counts.data_ptr<int>(), index.numel(), bins);
    return counts;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &histogram, "histogram");
}
