// finds: error uninitialised_read
// The sum begins with whatever the register holds.
__global__ void sum(const float* in, float* out, int n) {
#ifdef FIXED
    float total = 0;
#else
    float total;
#endif
    for (int i = 0; i < n; ++i) total += in[i];  // line
    out[threadIdx.x] = total;
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 8 * sizeof(float)), cudaMalloc(&out, 32 * sizeof(float));
    cudaMemset(in, 0, 8 * sizeof(float));
    sum<<<1, 32>>>(in, out, 8);
    return cudaDeviceSynchronize();
}
