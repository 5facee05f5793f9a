// finds: error uninitialised_read
// The variable is read in a function that has only its address.
__device__ __noinline__ void add(float* total, float x) {
    *total += x;  // line
}
__global__ void sum(const float* in, float* out) {
    float total;
#ifdef FIXED
    total = 0;
#endif
    for (int i = 0; i < 4; ++i) add(&total, in[i]);
    out[threadIdx.x] = total;
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 8 * sizeof(float)), cudaMalloc(&out, 32 * sizeof(float));
    cudaMemset(in, 0, 8 * sizeof(float));
    sum<<<1, 32>>>(in, out);
    return cudaDeviceSynchronize();
}
