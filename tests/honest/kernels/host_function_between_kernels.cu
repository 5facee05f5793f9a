// problem: scale_add
// why: a host function in the stream stands between two kernels and hands them a number through pinned memory
#include <cstdint>

#include <cuda_runtime.h>

struct Note {
    float asked, answered;
};

__global__ void ask(Note* note, float alpha) { note->asked = alpha; }

static void answer(void* note) {
    auto* own = static_cast<Note*>(note);
    own->answered = own->asked;
}

__global__ void scale_add(const Note* note, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = note->answered * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    static Note* note = nullptr;
    if (note == nullptr) cudaMallocHost(&note, sizeof(Note));
    ask<<<1, 1, 0, stream>>>(note, alpha);
    cudaLaunchHostFunc(stream, answer, note);
    scale_add<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(note, x, y, out, n);
}
