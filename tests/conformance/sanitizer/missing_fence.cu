// finds: error race
// The last block adds up what the others wrote, and they have no fence before their ticket.
__device__ unsigned tickets = 0;
__global__ void total(int* parts, unsigned* ticket, int* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x;  // other
#ifdef FIXED
        __threadfence();
#endif
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += parts[i];  // line
        *out = sum;
    }
}
int main() {
    int *parts, *out;
    unsigned* ticket;
    cudaMalloc(&parts, 8 * sizeof(int)), cudaMalloc(&out, sizeof(int)), cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    total<<<8, 32>>>(parts, ticket, out);
    return cudaDeviceSynchronize();
}
