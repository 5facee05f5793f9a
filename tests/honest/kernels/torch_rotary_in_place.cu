// problem: rotary_in_place
// why: a function of an extension that returns nothing, because it changes what it is given
#include <torch/extension.h>

__global__ void rotate(float* query, const float* cosine, const float* sine, int64_t heads, int64_t half, int64_t pairs) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    const int64_t angle = pair / (heads * half) * half + pair % half;
    float *const first = query + pair / half * 2 * half + pair % half, *const second = first + half;
    const float before = *first;
    *first = before * cosine[angle] - *second * sine[angle];
    *second = *second * cosine[angle] + before * sine[angle];
}

void rotary_embedding(torch::Tensor& query, const torch::Tensor& cosine, const torch::Tensor& sine) {
    const int64_t pairs = query.numel() / 2;
    if (pairs == 0) return;
    rotate<<<static_cast<unsigned>((pairs + 63) / 64), 64>>>(
        query.data_ptr<float>(), cosine.data_ptr<float>(), sine.data_ptr<float>(), query.size(1), query.size(3), pairs);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rotary_embedding", &rotary_embedding); }
