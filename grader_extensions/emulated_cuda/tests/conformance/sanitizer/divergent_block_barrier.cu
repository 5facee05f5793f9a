// finds: warning divergent_barrier
// Whole warps wait at two barriers: the device goes on, and compute-sanitizer complains.
__global__ void split(int* out) {
    __shared__ int box[64];
    int t = threadIdx.x;
#ifdef FIXED
    box[t] = t;
    __syncthreads();
#else
    if (t < 32) {
        box[t] = t;
        __syncthreads();  // line
    } else {
        box[t] = -t;
        __syncthreads();  // other
    }
#endif
    out[t] = box[63 - t];
}
int main() {
    int* out;
    cudaMalloc(&out, 64 * sizeof(int));
    split<<<1, 64>>>(out);
    return cudaDeviceSynchronize();
}
