// extension: headers=light
// call: forward(float32[64])
// call: forward(float32[50])
// call: forward(int32[17])
// Padded to a power of two with the type's largest value, sorted in place, cut by a slice.
#include <torch/extension.h>
#include <ATen/Dispatch.h>
#include <limits>

template <typename T>
__global__ void bitonic_step(T* values, int j, int k) {
    const unsigned int i = threadIdx.x + blockDim.x * blockIdx.x;
    const unsigned int partner = i ^ j;
    if (partner <= i) return;
    const bool ascending = (i & k) == 0;
    if ((values[i] > values[partner]) == ascending) {
        const T kept = values[i];
        values[i] = values[partner];
        values[partner] = kept;
    }
}

torch::Tensor sort(torch::Tensor x) {
    const int64_t n = x.numel();
    int64_t padded = 1;
    while (padded < n) padded <<= 1;
    torch::Tensor work;
    AT_DISPATCH_ALL_TYPES(x.scalar_type(), "sort", [&] {
        work = torch::full({padded}, std::numeric_limits<scalar_t>::max(), x.options());
        work.slice(0, 0, n).copy_(x);
        const int threads = std::min<int64_t>(padded, 32);
        for (int k = 2; k <= padded; k <<= 1)
            for (int j = k >> 1; j > 0; j >>= 1)
                bitonic_step<scalar_t><<<padded / threads, threads>>>(work.data_ptr<scalar_t>(), j, k);
    });
    return work.slice(0, 0, n).clone();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &sort, "ascending"); }
