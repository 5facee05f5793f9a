// extension: headers=light
// call: forward(float32[2, 9, 16], float32[16], float32[16, 48], float32[16, 16], float32[16], float32[16, 64], float32[32, 16], 4)
// call: forward(float32[1, 1, 8], float32[8], float32[8, 24], float32[8, 8], float32[8], float32[8, 16], float32[8, 8], heads=2, eps=0.01, causal=False)
// call: rms_norm(float32[7, 12], float32[12], 1e-6)
// call: matmul(float32[19, 33], float32[33, 21], float32[21])
// call: matmul(float64[5, 6], float64[6, 7], None)
// call: attention(float32[1, 6, 3, 8], float32[1, 6, 3, 8], float32[1, 6, 3, 8], True)
// call: swiglu(float32[5, 22])
// call: rotary(float32[2, 4, 3, 6], 0, 10000.0)
// call: rotary(float32[2, 4, 3, 6], 5, 500.0)
// call: layer_norm(float32[3, 70], float32[70], float32[70], 1e-5)
// call: layer_norm(float64[3, 70], None, None, 1e-5)
// call: top_k(float32[4, 19], 3)
// call: statistics(float32[10, 11])
// raises: forward(float32[2, 9, 16], float32[16], float32[16, 48], float32[16, 16], float32[16], float32[16, 64], float32[32, 16], 5)
// raises: matmul(float32[19, 33], float32[32, 21], None)
// raises: matmul(float32[2, 2], float64[2, 2], None)
// raises: swiglu(float32[5, 21])
// A whole block of a transformer in one file: many kernels, many functions, and the small tools that such files grow.
#include <torch/extension.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

// ---------------------------------------------------------------------------------------------------------------------
// Checks
// ---------------------------------------------------------------------------------------------------------------------

#define CHECK_CUDA(x) TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")
#define CHECK_FLOATING(x) TORCH_CHECK((x).is_floating_point(), #x " must be floating point, not ", (x).scalar_type())
#define CHECK_INPUT(x)   \
    do {                 \
        CHECK_CUDA(x);   \
        CHECK_CONTIGUOUS(x); \
        CHECK_FLOATING(x);   \
    } while (0)
#define CHECK_DIM(x, n) TORCH_CHECK((x).dim() == (n), #x " must have ", n, " dimensions, but its sizes are ", (x).sizes())
#define CHECK_SAME_TYPE(a, b) \
    TORCH_CHECK((a).scalar_type() == (b).scalar_type(), #a " is ", (a).scalar_type(), " but " #b " is ", (b).scalar_type())

#define CHECK_LAUNCH()                                                                                  \
    do {                                                                                                \
        const cudaError_t status = cudaGetLastError();                                                  \
        TORCH_CHECK(status == cudaSuccess, __func__, ": the launch failed: ", cudaGetErrorString(status)); \
    } while (0)

namespace block {

constexpr int kWarp = 32;
constexpr int kThreads = 64;
constexpr int kTile = 16;

template <typename T>
constexpr T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}

inline dim3 grid_for(int64_t count, int threads = kThreads) {
    return dim3(static_cast<unsigned>(std::min<int64_t>(ceil_div<int64_t>(count, threads), 65535)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions
// ---------------------------------------------------------------------------------------------------------------------

struct Sum {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};

struct Max {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a > b ? a : b;
    }
};

template <typename T, typename Op>
__device__ __forceinline__ T warp_reduce(T value, Op op) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset >>= 1) {
        value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    return value;
}

// Every thread gets the result. `scratch` holds one value a warp.
template <typename T, typename Op>
__device__ T block_reduce(T value, T neutral, Op op, T* scratch) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = ceil_div<int>(blockDim.x, kWarp);
    value = warp_reduce(value, op);
    if (lane == 0) scratch[warp] = value;
    __syncthreads();
    value = lane < warps ? scratch[lane] : neutral;
    value = warp_reduce(value, op);
    __syncthreads();
    return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// Norms
// ---------------------------------------------------------------------------------------------------------------------

template <typename T>
__global__ void rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y, int cols, T eps) {
    __shared__ T scratch[kThreads / kWarp];
    const T* in = x + static_cast<int64_t>(blockIdx.x) * cols;
    T* out = y + static_cast<int64_t>(blockIdx.x) * cols;
    T square = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) square += in[j] * in[j];
    square = block_reduce(square, T(0), Sum(), scratch);
    const T scale = T(1) / sqrt(square / cols + eps);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) out[j] = in[j] * scale * weight[j];
}

template <typename T>
__global__ void layer_norm_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, T* __restrict__ y,
                                  T* __restrict__ mean_out, T* __restrict__ rstd_out, int cols, T eps) {
    __shared__ T scratch[kThreads / kWarp];
    const T* in = x + static_cast<int64_t>(blockIdx.x) * cols;
    T* out = y + static_cast<int64_t>(blockIdx.x) * cols;

    T sum = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += in[j];
    const T mean = block_reduce(sum, T(0), Sum(), scratch) / cols;

    T square = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        const T d = in[j] - mean;
        square += d * d;
    }
    const T rstd = T(1) / sqrt(block_reduce(square, T(0), Sum(), scratch) / cols + eps);

    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        T value = (in[j] - mean) * rstd;
        if (weight != nullptr) value *= weight[j];
        if (bias != nullptr) value += bias[j];
        out[j] = value;
    }
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        rstd_out[blockIdx.x] = rstd;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Matrix product
// ---------------------------------------------------------------------------------------------------------------------

template <typename T, int TILE>
__global__ void matmul_kernel(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ bias, T* __restrict__ c, int m, int n, int k) {
    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int start = 0; start < k; start += TILE) {
        const int ka = start + threadIdx.x, kb = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : T(0);
        tile_b[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = bias != nullptr ? sum + bias[col] : sum;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention: one block for a query of a head, scores in dynamic shared memory
// ---------------------------------------------------------------------------------------------------------------------

__global__ void attention_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ out,
                                 int length, int heads, int dim, float scale, bool causal) {
    extern __shared__ float scores[];
    __shared__ float scratch[kThreads / kWarp];
    const int query = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const int64_t token = static_cast<int64_t>(heads) * dim;
    const int64_t base = static_cast<int64_t>(batch) * length * token + head * dim;
    const float* mine = q + base + query * token;
    const int visible = causal ? query + 1 : length;

    float top = -INFINITY;
    for (int j = threadIdx.x; j < visible; j += blockDim.x) {
        const float* other = k + base + j * token;
        float dot = 0.0f;
        for (int d = 0; d < dim; ++d) dot += mine[d] * other[d];
        scores[j] = dot * scale;
        top = fmaxf(top, scores[j]);
    }
    top = block_reduce(top, -INFINITY, Max(), scratch);

    float sum = 0.0f;
    for (int j = threadIdx.x; j < visible; j += blockDim.x) {
        scores[j] = expf(scores[j] - top);
        sum += scores[j];
    }
    sum = block_reduce(sum, 0.0f, Sum(), scratch);

    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float value = 0.0f;
        for (int j = 0; j < visible; ++j) value += scores[j] * v[base + j * token + d];
        out[base + query * token + d] = value / sum;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise
// ---------------------------------------------------------------------------------------------------------------------

__global__ void rotary_kernel(float* __restrict__ x, int length, int heads, int dim, int offset, float base, int64_t pairs) {
    const int half = dim / 2;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < pairs; i += gridDim.x * static_cast<int64_t>(blockDim.x)) {
        const int c = i % half;
        const int64_t row = i / half;
        const int position = (row / heads) % length + offset;
        const float angle = position * powf(base, -2.0f * c / dim);
        const float cosine = cosf(angle), sine = sinf(angle);
        float* pair = x + row * dim + c;
        const float left = pair[0], right = pair[half];
        pair[0] = left * cosine - right * sine;
        pair[half] = left * sine + right * cosine;
    }
}

__global__ void swiglu_kernel(const float* __restrict__ x, float* __restrict__ y, int cols, int64_t count) {
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * static_cast<int64_t>(blockDim.x)) {
        const int64_t row = i / cols, col = i % cols;
        const float gate = x[row * 2 * cols + col], value = x[row * 2 * cols + cols + col];
        y[i] = gate / (1.0f + expf(-gate)) * value;
    }
}

template <typename T>
__global__ void residual_kernel(const T* __restrict__ a, T* __restrict__ b, int64_t count) {
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * static_cast<int64_t>(blockDim.x)) {
        b[i] += a[i];
    }
}

// The k largest of a row by selection: slow, but simple, and stable.
__global__ void top_k_kernel(const float* __restrict__ x, float* __restrict__ values, int64_t* __restrict__ indices, int rows, int cols, int k) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;
    float last = INFINITY;
    int64_t last_index = -1;
    for (int i = 0; i < k; ++i) {
        float best = -INFINITY;
        int64_t best_index = -1;
        for (int j = 0; j < cols; ++j) {
            const bool taken = in[j] > last || (in[j] == last && j <= last_index);
            if (!taken && in[j] > best) {
                best = in[j];
                best_index = j;
            }
        }
        values[row * k + i] = last = best;
        indices[row * k + i] = last_index = best_index;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Host functions
// ---------------------------------------------------------------------------------------------------------------------

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
    CHECK_INPUT(x);
    CHECK_INPUT(weight);
    CHECK_SAME_TYPE(x, weight);
    const auto cols = x.size(-1);
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
        rms_norm_kernel<scalar_t><<<x.numel() / cols, kThreads>>>(
            x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), static_cast<int>(cols), static_cast<scalar_t>(eps));
    });
    CHECK_LAUNCH();
    return y;
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm(const torch::Tensor& x, const std::optional<torch::Tensor>& weight,
                                                                   const std::optional<torch::Tensor>& bias, double eps) {
    CHECK_INPUT(x);
    const auto cols = x.size(-1);
    const auto rows = x.numel() / cols;
    auto y = torch::empty_like(x);
    auto mean = torch::empty({rows}, x.options());
    auto rstd = torch::empty({rows}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "layer_norm", [&] {
        const scalar_t* weight_ptr = weight.has_value() ? weight->data_ptr<scalar_t>() : nullptr;
        const scalar_t* bias_ptr = bias.has_value() ? bias->data_ptr<scalar_t>() : nullptr;
        layer_norm_kernel<scalar_t><<<rows, kThreads>>>(x.data_ptr<scalar_t>(), weight_ptr, bias_ptr, y.data_ptr<scalar_t>(), mean.data_ptr<scalar_t>(),
                                                        rstd.data_ptr<scalar_t>(), static_cast<int>(cols), static_cast<scalar_t>(eps));
    });
    CHECK_LAUNCH();
    return {y, mean, rstd};
}

torch::Tensor matmul(const torch::Tensor& a, const torch::Tensor& b, const std::optional<torch::Tensor>& bias) {
    CHECK_INPUT(a);
    CHECK_INPUT(b);
    CHECK_DIM(a, 2);
    CHECK_DIM(b, 2);
    CHECK_SAME_TYPE(a, b);
    TORCH_CHECK(a.size(1) == b.size(0), "a is ", a.sizes(), " and b is ", b.sizes(), ": they do not multiply");
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    const dim3 threads(kTile, kTile);
    const dim3 blocks(ceil_div(n, kTile), ceil_div(m, kTile));
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "matmul", [&] {
        const scalar_t* bias_ptr = bias ? bias->data_ptr<scalar_t>() : nullptr;
        matmul_kernel<scalar_t, kTile><<<blocks, threads>>>(
            a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), bias_ptr, c.data_ptr<scalar_t>(), m, n, k);
    });
    CHECK_LAUNCH();
    return c;
}

torch::Tensor rotary(const torch::Tensor& x, int64_t offset, double base) {
    CHECK_DIM(x, 4);
    auto y = x.contiguous().clone();
    const int64_t pairs = y.numel() / 2;
    rotary_kernel<<<grid_for(pairs), kThreads>>>(y.data_ptr<float>(), y.size(1), y.size(2), y.size(3), offset, static_cast<float>(base), pairs);
    return y;
}

torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal) {
    CHECK_INPUT(q);
    CHECK_INPUT(k);
    CHECK_INPUT(v);
    const int batch = q.size(0), length = q.size(1), heads = q.size(2), dim = q.size(3);
    auto out = torch::empty_like(q);
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    attention_kernel<<<dim3(length, heads, batch), kThreads, length * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), length, heads, dim, scale, causal);
    CHECK_LAUNCH();
    return out;
}

torch::Tensor swiglu(const torch::Tensor& x) {
    TORCH_CHECK(x.size(-1) % 2 == 0, "the last dimension must be even, but is ", x.size(-1));
    auto shape = x.sizes().vec();
    shape.back() /= 2;
    auto y = torch::empty(shape, x.options());
    swiglu_kernel<<<grid_for(y.numel()), kThreads>>>(x.data_ptr<float>(), y.data_ptr<float>(), shape.back(), y.numel());
    return y;
}

void add_residual(const torch::Tensor& from, torch::Tensor& to) {
    AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "add_residual", [&] {
        residual_kernel<<<grid_for(from.numel()), kThreads>>>(from.data_ptr<scalar_t>(), to.data_ptr<scalar_t>(), from.numel());
    });
}

std::tuple<torch::Tensor, torch::Tensor> top_k(const torch::Tensor& x, int64_t k) {
    CHECK_DIM(x, 2);
    TORCH_CHECK(k <= x.size(1), "k is ", k, ", more than ", x.size(1));
    auto values = torch::empty({x.size(0), k}, x.options());
    auto indices = torch::empty({x.size(0), k}, x.options().dtype(torch::kInt64));
    top_k_kernel<<<grid_for(x.size(0)), kThreads>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(0), x.size(1), k);
    return std::make_tuple(values, indices);
}

std::vector<torch::Tensor> statistics(const torch::Tensor& x) {
    auto centered = x - x.mean(0, /*keepdim=*/true);
    auto covariance = centered.t().matmul(centered) / (x.size(0) - 1);
    return {x.mean(), x.std(), x.min(), x.max(), covariance, covariance.diagonal().sqrt()};
}

torch::Tensor forward(torch::Tensor x, const torch::Tensor& norm_attention, const torch::Tensor& w_qkv, const torch::Tensor& w_out,
                      const torch::Tensor& norm_mlp, const torch::Tensor& w_up, const torch::Tensor& w_down, int64_t heads, double eps, bool causal) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    TORCH_CHECK(width % heads == 0, "width ", width, " does not divide into ", heads, " heads");
    const int64_t dim = width / heads;
    x = x.contiguous().clone();

    auto flat = x.view({batch * length, width});
    auto qkv = matmul(rms_norm(flat, norm_attention, eps), w_qkv, std::nullopt).view({batch, length, 3, heads, dim});
    auto q = rotary(qkv.select(2, 0), 0, 10000.0);
    auto k = rotary(qkv.select(2, 1), 0, 10000.0);
    auto v = qkv.select(2, 2).contiguous();
    auto mixed = attention(q, k, v, causal).reshape({batch * length, width});
    add_residual(matmul(mixed, w_out, std::nullopt), flat);

    auto up = matmul(rms_norm(flat, norm_mlp, eps), w_up, {});
    add_residual(matmul(swiglu(up), w_down, {}), flat);
    return x;
}

}  // namespace block

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "a block of a transformer";
    m.def("forward", &block::forward, "the whole block", py::arg("x"), py::arg("norm_attention"), py::arg("w_qkv"), py::arg("w_out"),
          py::arg("norm_mlp"), py::arg("w_up"), py::arg("w_down"), py::arg("heads"), py::arg("eps") = 1e-6, py::arg("causal") = true);
    m.def("rms_norm", &block::rms_norm, "RMS norm over the last dimension");
    m.def("layer_norm", &block::layer_norm, "output, mean and reciprocal deviation");
    m.def("matmul", &block::matmul, "a @ b + bias");
    m.def("rotary", &block::rotary, "rotary position embedding");
    m.def("attention", &block::attention, "softmax(q k^T) v");
    m.def("swiglu", &block::swiglu, "silu(left) * right");
    m.def("top_k", &block::top_k, "values and indices");
    m.def("statistics", &block::statistics);
}
