// finds: error race
// A fence of the block tells other blocks nothing. They pass a sum on by flags.
#ifdef FIXED
#define FENCE __threadfence()
#else
#define FENCE __threadfence_block()
#endif
__device__ volatile int ready[8];
__global__ void look_back(int* sums) {
    if (threadIdx.x > 0) return;
    int before = 0;
    if (blockIdx.x > 0) {
        while (ready[blockIdx.x - 1] == 0) __nanosleep(10);
        before = sums[blockIdx.x - 1];  // line
    }
    sums[blockIdx.x] = before + 1;  // other
    FENCE;
    ready[blockIdx.x] = 1;
}
int main() {
    int* sums;
    cudaMalloc(&sums, 8 * sizeof(int));
    look_back<<<8, 32>>>(sums);
    return cudaDeviceSynchronize();
}
