// extension: headers=light
// call: forward(int64[100])
// call: forward(int64[512])
// call: forward(int32[30])
// raises: forward(int64[600])
// An exclusive scan in dynamic shared memory; integers of any width are widened by torch first.
#include <torch/extension.h>

__global__ void scan_kernel(const int64_t* in, int64_t* out, int n, int padded) {
    extern __shared__ long long temp[];
    const int t = threadIdx.x;
    temp[2 * t] = 2 * t < n ? in[2 * t] : 0;
    temp[2 * t + 1] = 2 * t + 1 < n ? in[2 * t + 1] : 0;
    int offset = 1;
    for (int d = padded >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) temp[padded - 1] = 0;
    for (int d = 1; d < padded; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            const int ai = offset * (2 * t + 1) - 1, bi = offset * (2 * t + 2) - 1;
            const auto left = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += left;
        }
    }
    __syncthreads();
    if (2 * t < n) out[2 * t] = temp[2 * t];
    if (2 * t + 1 < n) out[2 * t + 1] = temp[2 * t + 1];
}

torch::Tensor exclusive_scan(torch::Tensor values) {
    values = values.to(torch::kLong).contiguous();
    const auto n = values.numel();
    TORCH_CHECK_VALUE(n <= 512, "at most 512 values, not ", n);
    auto out = torch::empty_like(values);
    int padded = 2;
    while (padded < n) padded *= 2;
    scan_kernel<<<1, padded / 2, padded * sizeof(long long)>>>(values.data_ptr<int64_t>(), out.data_ptr<int64_t>(), n, padded);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &exclusive_scan); }
