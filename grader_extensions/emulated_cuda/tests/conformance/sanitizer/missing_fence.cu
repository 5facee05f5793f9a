// finds: error race
// The last block adds up what the others wrote, and they have no fence before their ticket, which is a variable of the device.
__device__ unsigned int done = 0;
__device__ float block_sum(float v, float* s) {
    int t = threadIdx.x;
    s[t] = v;
    __syncthreads();
    for (int w = 64; w > 0; w >>= 1) {
        if (t < w) s[t] += s[t + w];
        __syncthreads();
    }
    float all = s[0];
    __syncthreads();
    return all;
}
__global__ void sum(const float* x, float* part, float* y, int n) {
    __shared__ float s[128];
    __shared__ bool last;
    float v = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 128 * gridDim.x) v += x[i];
    v = block_sum(v, s);
    if (threadIdx.x == 0) part[blockIdx.x] = v;  // other
#ifdef FIXED
    __threadfence();
#endif
    if (threadIdx.x == 0) last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    v = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 128) v += part[i];  // line
    v = block_sum(v, s);
    if (threadIdx.x == 0) {
        *y = v;
        done = 0;
    }
}
int main() {
    float *x, *part, *y;
    cudaMalloc(&x, 4000), cudaMalloc(&part, 8 * sizeof(float)), cudaMalloc(&y, sizeof(float));
    cudaMemset(x, 0, 4000);
    sum<<<8, 128>>>(x, part, y, 1000);
    return cudaDeviceSynchronize();
}
