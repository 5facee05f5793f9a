// finds: error race
// As missing_fence, with the ticket in allocated memory, taken by a relaxed atomic of the library.
#include <cuda/atomic>
__global__ void total(int* parts, unsigned* done, int* out) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> ticket(*done);
    if (threadIdx.x > 0) return;
    parts[blockIdx.x] = blockIdx.x;  // other
#ifdef FIXED
    if (ticket.fetch_add(1, cuda::memory_order_acq_rel) != gridDim.x - 1) return;
#else
    if (ticket.fetch_add(1, cuda::memory_order_relaxed) != gridDim.x - 1) return;
#endif
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += parts[i];  // line
    *out = sum;
}
int main() {
    int *parts, *out;
    unsigned* done;
    cudaMalloc(&parts, 8 * sizeof(int)), cudaMalloc(&out, sizeof(int)), cudaMalloc(&done, sizeof(unsigned));
    cudaMemset(done, 0, sizeof(unsigned));
    total<<<8, 32>>>(parts, done, out);
    return cudaDeviceSynchronize();
}
