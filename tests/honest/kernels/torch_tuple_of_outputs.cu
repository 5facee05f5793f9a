// problem: row_statistics
// why: returns three tensors of two types as a tuple, and keeps none of them
#include <tuple>

#include <torch/extension.h>

__global__ void statistics(const float* x, float* mean, float* variance, int64_t* place, int64_t cols) {
    __shared__ double sums[64], squares[64];
    __shared__ int64_t places[64];
    const float* in = x + blockIdx.x * cols;
    double sum = 0.0, square = 0.0;
    int64_t best = threadIdx.x < cols ? threadIdx.x : 0;
    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
        sum += in[j];
        square += static_cast<double>(in[j]) * in[j];
        if (in[j] > in[best]) best = j;
    }
    sums[threadIdx.x] = sum, squares[threadIdx.x] = square, places[threadIdx.x] = best;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned other = 1; other < blockDim.x; ++other) {
        sum += sums[other], square += squares[other];
        const int64_t theirs = places[other];
        if (in[theirs] > in[best] || (in[theirs] == in[best] && theirs < best)) best = theirs;
    }
    const double middle = sum / static_cast<double>(cols), rest = square / static_cast<double>(cols) - middle * middle;
    mean[blockIdx.x] = static_cast<float>(middle);
    variance[blockIdx.x] = static_cast<float>(rest > 0.0 ? rest : 0.0);
    place[blockIdx.x] = best;
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    auto mean = torch::empty({x.size(0)}, x.options()), variance = torch::empty_like(mean);
    auto place = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
    statistics<<<static_cast<unsigned>(x.size(0)), 64>>>(
        x.data_ptr<float>(), mean.data_ptr<float>(), variance.data_ptr<float>(), place.data_ptr<int64_t>(), x.size(1));
    return {mean, variance, place};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
