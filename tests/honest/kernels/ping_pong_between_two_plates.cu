// problem: heat_steps
// why: four launches write output and workspace in turn, so that the output holds a wrong answer half of the time
#include <cstdint>

#include <cuda_runtime.h>

__global__ void step(const float* from, float* to, int64_t height, int64_t width) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    if (row >= height || column >= width) return;
    const float* at = from + row * width + column;
    const bool border = row == 0 || column == 0 || row == height - 1 || column == width - 1;
    to[row * width + column] = border ? *at : 0.5f * *at + 0.125f * (at[-width] + at[width] + at[-1] + at[1]);
}

extern "C" void solve(const float* plate, float* after, int64_t height, int64_t width, cudaStream_t stream) {
    static float* other = nullptr;
    static int64_t capacity = 0;
    if (height * width > capacity) {
        cudaFree(other);
        cudaMalloc(&other, height * width * sizeof(float));
        capacity = height * width;
    }
    const dim3 grid(static_cast<unsigned>((width + 31) / 32), static_cast<unsigned>((height + 3) / 4)), block(32, 4);
    step<<<grid, block, 0, stream>>>(plate, other, height, width);
    step<<<grid, block, 0, stream>>>(other, after, height, width);
    step<<<grid, block, 0, stream>>>(after, other, height, width);
    step<<<grid, block, 0, stream>>>(other, after, height, width);
}
