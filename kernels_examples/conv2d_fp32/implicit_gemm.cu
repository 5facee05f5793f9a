// expect: ACCEPTED
// A matrix product whose right matrix is never stored: its column is an output pixel, its row a tap, and the index says which input it is.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int KERNEL = 11, STRIDE = 4, PADDING = 2;
constexpr int FILTERS = 96, PIXELS = 128, DEPTH = 8;  // of a block, and the taps of a step
constexpr int WARPS = 8, THREADS = 32 * WARPS;        // a thread has twelve neighbouring filters and every 32nd pixel
constexpr int F = FILTERS / WARPS, P = PIXELS / 32;

struct Sizes {
    int channels, filters, height, width, out_height, out_width;
    int64_t pixels;
};

__global__ void __launch_bounds__(THREADS, 2)
convolve(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y, Sizes s) {
    __shared__ __align__(16) float taps[DEPTH][FILTERS + 4];  // the four spare columns keep stores off each other's banks
    __shared__ float inputs[DEPTH][PIXELS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first_filter = blockIdx.y * FILTERS, depth = s.channels * KERNEL * KERNEL;
    const int area = s.out_height * s.out_width;

    const float* image[P];  // each pixel's image, and where its window begins there; one that is not there begins far above
    int top[P], left[P];
    #pragma unroll
    for (int p = 0; p < P; ++p) {
        const int64_t pixel = static_cast<int64_t>(blockIdx.x) * PIXELS + lane + 32 * p;
        const int at = static_cast<int>(pixel % area);
        image[p] = x + pixel / area * s.channels * s.height * s.width;
        top[p] = pixel < s.pixels ? at / s.out_width * STRIDE - PADDING : -2 * KERNEL;
        left[p] = at % s.out_width * STRIDE - PADDING;
    }

    float sums[F][P] = {};
    for (int start = 0; start < depth; start += DEPTH) {
        #pragma unroll
        for (int i = threadIdx.x; i < DEPTH * FILTERS; i += THREADS) {
            const int filter = first_filter + i / DEPTH, k = start + i % DEPTH;
            taps[i % DEPTH][i / DEPTH] = filter < s.filters && k < depth ? weight[static_cast<int64_t>(filter) * depth + k] : 0.0f;
        }
        const int tap = start + warp, channel = tap / (KERNEL * KERNEL), rest = tap % (KERNEL * KERNEL);
        #pragma unroll
        for (int p = 0; p < P; ++p) {
            const int row = top[p] + rest / KERNEL, col = left[p] + rest % KERNEL;
            const bool inside = tap < depth && row >= 0 && row < s.height && col >= 0 && col < s.width;
            inputs[warp][lane + 32 * p] = inside ? image[p][(static_cast<int64_t>(channel) * s.height + row) * s.width + col] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            #pragma unroll
            for (int f = 0; f < F; ++f) {
                #pragma unroll
                for (int p = 0; p < P; ++p) sums[f][p] = fmaf(taps[step][warp * F + f], inputs[step][lane + 32 * p], sums[f][p]);
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int p = 0; p < P; ++p) {
        const int64_t pixel = static_cast<int64_t>(blockIdx.x) * PIXELS + lane + 32 * p;
        #pragma unroll
        for (int f = 0; f < F; ++f) {
            const int filter = first_filter + warp * F + f;
            if (pixel < s.pixels && filter < s.filters) {
                y[(pixel / area * s.filters + filter) * area + pixel % area] = sums[f][p] + bias[filter];
            }
        }
    }
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t filters,
    int64_t height, int64_t width, int64_t out_height, int64_t out_width, cudaStream_t stream) {
    const int64_t pixels = batch * out_height * out_width;
    const Sizes sizes = {
        static_cast<int>(channels), static_cast<int>(filters), static_cast<int>(height), static_cast<int>(width),
        static_cast<int>(out_height), static_cast<int>(out_width), pixels};
    const dim3 blocks((pixels + PIXELS - 1) / PIXELS, (filters + FILTERS - 1) / FILTERS);
    convolve<<<blocks, THREADS, 0, stream>>>(x, weight, bias, y, sizes);
}
