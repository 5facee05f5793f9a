// finds: error divergent_barrier
// Lanes of one warp wait at two barriers.
__global__ void split(int* out) {
    __shared__ int box[32];
    int t = threadIdx.x;
#ifdef FIXED
    box[t] = t;
    __syncthreads();
#else
    if (t < 16) {
        box[t] = t;
        __syncthreads();  // line
    } else {
        box[t] = -t;
        __syncthreads();  // other
    }
#endif
    out[t] = box[31 - t];
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
    split<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
