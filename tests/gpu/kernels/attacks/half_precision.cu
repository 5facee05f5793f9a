// id: G1
// cases: matmul NARROW=half; matmul NARROW=tf32
// expect: WRONG_ANSWER MISMATCH
// from: originals/raw.cu
// Multiplies on the tensor cores, in half precision or in TF32, and adds up in float32.
#include <cuda_fp16.h>
#include <mma.h>

#include "parameters.h"
#include "work.h"

using namespace nvcuda;

struct half_kind {
    using Element = __half;
    static constexpr int depth = 16;
    using Fragment = __half;
    __device__ static __half from(float value) { return __float2half(value); }
};
struct tf32_kind {
    using Element = float;
    static constexpr int depth = 8;
    using Fragment = wmma::precision::tf32;
    __device__ static float from(float value) { return wmma::__float_to_tf32(value); }
};

#define KIND_OF(name) name##_kind
#define KIND(name) KIND_OF(name)

// One warp a block, one tile of 16 by 16 a warp; n is a multiple of 16.
template <typename Kind>
__global__ void narrow(const float* a, const float* b, float* out, int64_t n) {
    constexpr int depth = Kind::depth;
    __shared__ alignas(32) typename Kind::Element left[16 * depth], right[depth * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, depth, typename Kind::Fragment, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, depth, typename Kind::Fragment, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, depth, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int64_t row = 16 * static_cast<int64_t>(blockIdx.y), column = 16 * static_cast<int64_t>(blockIdx.x);
    for (int64_t begin = 0; begin < n; begin += depth) {
        for (int at = threadIdx.x; at < 16 * depth; at += 32) {
            left[at] = Kind::from(a[(row + at / depth) * n + begin + at % depth]);
            right[at] = Kind::from(b[(begin + at / 16) * n + column + at % 16]);
        }
        __syncwarp();
        wmma::load_matrix_sync(x, left, depth);
        wmma::load_matrix_sync(y, right, 16);
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(out + row * n + column, sum, static_cast<unsigned>(n), wmma::mem_row_major);
}

ENTRY {
    const unsigned tiles = static_cast<unsigned>(n / 16);
    narrow<KIND(NARROW)><<<dim3(tiles, tiles), 32, 0, stream>>>(a, b, out, n);
}
