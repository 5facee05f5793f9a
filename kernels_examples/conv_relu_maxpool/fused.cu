// expect: ACCEPTED
// A thread makes the four convolutions under one pooled output for sixteen filters; only their maximum ever leaves its registers.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int COLS = 16, ROWS = 8, FILTERS = 16;        // pooled outputs of a block, and its filters
constexpr int THREADS = COLS * ROWS;
constexpr int WIDE = 2 * COLS + 2, HIGH = 2 * ROWS + 2;  // the inputs under them, with a border of one

struct Sizes {
    int channels, filters, height, width, pooled_height, pooled_width;
};

__global__ void __launch_bounds__(THREADS)
fused(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y, Sizes s) {
    __shared__ float patch[HIGH][WIDE];
    __shared__ __align__(16) float taps[9][FILTERS];
    const int tx = threadIdx.x % COLS, ty = threadIdx.x / COLS, across = (s.pooled_width + COLS - 1) / COLS;
    const int first_col = blockIdx.x % across * COLS, first_row = blockIdx.x / across * ROWS, first_filter = blockIdx.y * FILTERS;
    const int64_t image = blockIdx.z;

    float sums[FILTERS][4] = {};
    for (int channel = 0; channel < s.channels; ++channel) {
        const float* plane = x + (image * s.channels + channel) * s.height * s.width;
        for (int i = threadIdx.x; i < HIGH * WIDE; i += THREADS) {
            const int row = 2 * first_row + i / WIDE - 1, col = 2 * first_col + i % WIDE - 1;
            const bool inside = row >= 0 && row < s.height && col >= 0 && col < s.width;
            patch[i / WIDE][i % WIDE] = inside ? plane[row * s.width + col] : 0.0f;
        }
        for (int i = threadIdx.x; i < 9 * FILTERS; i += THREADS) {
            const int filter = first_filter + i / 9;
            taps[i % 9][i / 9] = filter < s.filters ? weight[(static_cast<int64_t>(filter) * s.channels + channel) * 9 + i % 9] : 0.0f;
        }
        __syncthreads();
        float window[4][4];
        #pragma unroll
        for (int i = 0; i < 16; ++i) window[i / 4][i % 4] = patch[2 * ty + i / 4][2 * tx + i % 4];
        #pragma unroll
        for (int tap = 0; tap < 9; ++tap) {
            #pragma unroll
            for (int f = 0; f < FILTERS; ++f) {
                #pragma unroll
                for (int at = 0; at < 4; ++at) {
                    sums[f][at] = fmaf(taps[tap][f], window[at / 2 + tap / 3][at % 2 + tap % 3], sums[f][at]);
                }
            }
        }
        __syncthreads();
    }

    const int row = first_row + ty, col = first_col + tx;
    if (row >= s.pooled_height || col >= s.pooled_width) return;
    #pragma unroll
    for (int f = 0; f < FILTERS; ++f) {
        const int filter = first_filter + f;
        if (filter >= s.filters) break;
        const float largest = fmaxf(fmaxf(sums[f][0], sums[f][1]), fmaxf(sums[f][2], sums[f][3]));
        // The bias is the same for all four, and neither it nor ReLU changes which one is largest.
        y[((image * s.filters + filter) * s.pooled_height + row) * s.pooled_width + col] = fmaxf(largest + bias[filter], 0.0f);
    }
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t filters,
    int64_t height, int64_t width, int64_t pooled_height, int64_t pooled_width, cudaStream_t stream) {
    const Sizes sizes = {
        static_cast<int>(channels), static_cast<int>(filters), static_cast<int>(height), static_cast<int>(width),
        static_cast<int>(pooled_height), static_cast<int>(pooled_width)};
    const int64_t tiles = (pooled_width + COLS - 1) / COLS * ((pooled_height + ROWS - 1) / ROWS);
    fused<<<dim3(tiles, (filters + FILTERS - 1) / FILTERS, batch), THREADS, 0, stream>>>(x, weight, bias, y, sizes);
}
