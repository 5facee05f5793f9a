// problem: heat_steps
// why: a constructor uploads a table of coefficients to the device while the artifact is loaded, and a destructor takes it back
#include <cstdint>

#include <cuda_runtime.h>

#include <array>

class Coefficients {
public:
    Coefficients() {
        std::array<float, 9> nine{};
        nine[4] = 0.5f;
        for (const int side : {1, 3, 5, 7}) nine[side] = 0.125f;
        cudaMalloc(&at, sizeof nine);
        cudaMemcpy(at, nine.data(), sizeof nine, cudaMemcpyHostToDevice);
    }
    ~Coefficients() { cudaFree(at); }
    float* at = nullptr;
};

static const Coefficients coefficients;

__global__ void step(const float* nine, const float* from, float* to, int64_t height, int64_t width) {
    const int64_t cell = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, row = cell / width, column = cell % width;
    if (cell >= height * width) return;
    if (row == 0 || column == 0 || row == height - 1 || column == width - 1) {
        to[cell] = from[cell];
        return;
    }
    float sum = 0.0f;
    for (int at = 0; at < 9; ++at) sum += nine[at] * from[cell + (at / 3 - 1) * width + at % 3 - 1];
    to[cell] = sum;
}

extern "C" void solve(const float* plate, float* after, int64_t height, int64_t width, cudaStream_t stream) {
    float* other = nullptr;
    const auto blocks = static_cast<unsigned>((height * width + 127) / 128);
    cudaMallocAsync(&other, height * width * sizeof(float), stream);
    for (int pair = 0; pair < 2; ++pair) {
        step<<<blocks, 128, 0, stream>>>(coefficients.at, pair == 0 ? plate : after, other, height, width);
        step<<<blocks, 128, 0, stream>>>(coefficients.at, other, after, height, width);
    }
    cudaFreeAsync(other, stream);
}
