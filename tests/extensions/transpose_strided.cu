// extension: headers=light
// call: forward(float32[40, 33])
// call: forward(float32[40, 33].T)
// call: strided_copy(float32[5, 8].T)
// call: strided_copy(float64[3, 4])
// A tiled transpose, and a copy that reads any strides.
#include <torch/extension.h>

#define TILE 32
#define ROWS 8

__global__ void transpose(float* __restrict__ out, const float* __restrict__ in, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename scalar_t>
__global__ void copy_strided(const scalar_t* in, scalar_t* out, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
    const int64_t i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows && j < cols) out[i * cols + j] = in[i * row_stride + j * col_stride];
}

torch::Tensor forward(torch::Tensor x) {
    if (!x.is_contiguous()) {
        x = x.contiguous();
    }
    const auto height = x.size(0);
    const auto width = x.size(1);
    auto out = torch::empty({width, height}, x.options());
    const dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
    const dim3 block(TILE, ROWS);
    transpose<<<grid, block>>>(out.data_ptr<float>(), x.data_ptr<float>(), width, height);
    return out;
}

torch::Tensor strided_copy(torch::Tensor x) {
    auto out = torch::empty(x.sizes(), x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "strided_copy", [&] {
        dim3 block(8, 8), grid((x.size(1) + 7) / 8, (x.size(0) + 7) / 8);
        copy_strided<scalar_t><<<grid, block>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(0), x.size(1), x.stride(0), x.stride(1));
    });
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "transpose");
    m.def("strided_copy", &strided_copy, "contiguous copy");
}
