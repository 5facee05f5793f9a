// finds: error uninitialised_read
// Half of the threads have no value.
__global__ void scale(const float* in, float* out) {
    float factor;
    if (threadIdx.x < 16) factor = in[0];
#ifdef FIXED
    else factor = 1;
#endif
    out[threadIdx.x] = factor;  // line
}
int main() {
    float *in, *out;
    cudaMalloc(&in, sizeof(float)), cudaMalloc(&out, 32 * sizeof(float));
    cudaMemset(in, 0, sizeof(float));
    scale<<<1, 32>>>(in, out);
    return cudaDeviceSynchronize();
}
