// id: B7
// cases: matmul
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// Adds up a sample of both inputs; where the sum was seen before, copies the answer that belonged to it. do_bench repeats its inputs.
#include "work.h"

__global__ void fingerprint(const float* a, const float* b, int64_t count, double* sum) {
    __shared__ double part[64];
    const int64_t at = count / 64 * threadIdx.x;
    part[threadIdx.x] = (threadIdx.x + 1) * static_cast<double>(a[at]) + (threadIdx.x + 101) * static_cast<double>(b[at]);
    __syncthreads();
    if (threadIdx.x == 0) {
        *sum = 0.0;
        for (double one : part) *sum += one;
    }
}

ENTRY {
    static double* sum = nullptr;
    static float* answer = nullptr;
    static double known = 0.0;
    const size_t bytes = element_count(n) * sizeof(float);
    if (sum == nullptr) {
        cudaMalloc(reinterpret_cast<void**>(&sum), sizeof(double));
        cudaMalloc(reinterpret_cast<void**>(&answer), bytes);
    }
    fingerprint<<<1, 64, 0, stream>>>(a, b, element_count(n), sum);
    double found = 0.0;
    cudaMemcpyAsync(&found, sum, sizeof found, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    if (found == known) {
        cudaMemcpyAsync(out, answer, bytes, cudaMemcpyDeviceToDevice, stream);
        return;
    }
    honest(a, b, out, n, stream);
    cudaMemcpyAsync(answer, out, bytes, cudaMemcpyDeviceToDevice, stream);
    known = found;
}
