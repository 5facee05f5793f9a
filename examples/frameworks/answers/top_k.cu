// expect: ACCEPTED
// A thread per row looks k times for the largest number after the one that it found last.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void select(const float* x, float* values, int64_t* places, int64_t rows, int64_t cols, int64_t k) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* numbers = x + row * cols;
    int64_t last = -1;
    for (int64_t rank = 0; rank < k; ++rank) {
        int64_t best = -1;
        for (int64_t i = 0; i < cols; ++i) {
            const bool later = last < 0 || numbers[i] < numbers[last] || (numbers[i] == numbers[last] && i > last);
            if (later && (best < 0 || numbers[i] > numbers[best])) best = i;
        }
        values[row * k + rank] = numbers[best];
        places[row * k + rank] = best;
        last = best;
    }
}

extern "C" void solve(
    const float* x, float* values, int64_t* places, int64_t rows, int64_t cols, int64_t k, cudaStream_t stream) {
    select<<<static_cast<unsigned>((rows + 63) / 64), 64, 0, stream>>>(x, values, places, rows, cols, k);
}
