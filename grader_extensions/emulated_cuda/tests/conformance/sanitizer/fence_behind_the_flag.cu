// finds: error race
// One warp hands a value to another by a flag, and the fence comes too late. A fence of the block is enough for it.
__global__ void hand_over(int* out) {
    __shared__ int value;
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 32) {
        value = 7;  // other
#ifdef FIXED
        __threadfence_block();
        flag = 1;
#else
        flag = 1;
        __threadfence_block();
#endif
    }
    if (threadIdx.x == 0) {
        while (flag == 0) __nanosleep(10);
        out[blockIdx.x] = value;  // line
    }
}
int main() {
    int* out;
    cudaMalloc(&out, 2 * sizeof(int));
    hand_over<<<2, 64>>>(out);
    return cudaDeviceSynchronize();
}
