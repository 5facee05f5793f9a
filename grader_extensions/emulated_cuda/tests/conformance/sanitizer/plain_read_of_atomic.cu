// finds: error race
// The sum is read before all have added to it.
__global__ void total(int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, 1);  // other
#ifdef FIXED
    __syncthreads();
#endif
    out[threadIdx.x] = sum;  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 64 * sizeof(int));
    total<<<1, 64>>>(out);
    return cudaDeviceSynchronize();
}
