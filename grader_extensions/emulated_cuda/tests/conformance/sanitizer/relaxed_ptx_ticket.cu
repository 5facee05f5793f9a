// finds: error race
// A ticket by inline PTX, relaxed where it has to release.
__device__ unsigned done;
__global__ void total(int* parts, int* out) {
    if (threadIdx.x > 0) return;
    parts[blockIdx.x] = blockIdx.x;  // other
    unsigned ticket;
#ifdef FIXED
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(&done) : "memory");
#else
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(&done) : "memory");
#endif
    if (ticket != gridDim.x - 1) return;
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += parts[i];  // line
    *out = sum;
}
int main() {
    int *parts, *out;
    cudaMalloc(&parts, 8 * sizeof(int)), cudaMalloc(&out, sizeof(int));
    total<<<8, 32>>>(parts, out);
    return cudaDeviceSynchronize();
}
