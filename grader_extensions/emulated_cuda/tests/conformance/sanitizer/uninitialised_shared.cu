// finds: error uninitialised_read
// The upper half of the box is read before anything is there.
__global__ void sum(int* out) {
    __shared__ int box[64];
    int t = threadIdx.x;
    box[t] = t;
#ifdef FIXED
    box[t + 32] = t;
#endif
    __syncthreads();
    out[t] = box[t] + box[(t + 1) % 64];  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
    sum<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
