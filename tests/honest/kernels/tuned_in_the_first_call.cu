// problem: matmul
// mode: ranked
// why: the first call of each shape runs both variants and remembers which was faster, so that it takes several times as long as the others
#include <cstdint>

#include <cuda_runtime.h>

#include <map>
#include <tuple>

__global__ void by_element(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    float sum = 0.0f;
    for (int64_t i = 0; i < k; ++i) sum += a[at / n * k + i] * b[i * n + at % n];
    c[at] = sum;
}

__global__ void by_row(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    for (int64_t column = threadIdx.x; column < n; column += blockDim.x) {
        float sum = 0.0f;
        for (int64_t i = 0; i < k; ++i) sum += a[blockIdx.x * k + i] * b[i * n + column];
        c[blockIdx.x * n + column] = sum;
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    static std::map<std::tuple<int64_t, int64_t, int64_t>, bool> rows_are_faster;
    const auto launch = [=](bool rows) {
        if (rows) by_row<<<static_cast<unsigned>(m), 64, 0, stream>>>(a, b, c, m, n, k);
        else by_element<<<static_cast<unsigned>((m * n + 127) / 128), 128, 0, stream>>>(a, b, c, m, n, k);
    };
    const auto found = rows_are_faster.find({m, n, k});
    if (found != rows_are_faster.end()) return launch(found->second);
    float ms[2] = {};
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (const bool rows : {false, true}) {
        for (int again = 0; again < 3; ++again) {
            cudaEventRecord(begin, stream);
            launch(rows);
            cudaEventRecord(end, stream);
            cudaEventSynchronize(end);
            cudaEventElapsedTime(&ms[rows], begin, end);
        }
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    rows_are_faster[{m, n, k}] = ms[1] < ms[0];
}
