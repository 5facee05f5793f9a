// finds: error uninitialised_read
// Three of the four partial sums have a first value.
__global__ void sums(const float* in, float* out) {
    float total[4], *last = &total[3];
#ifdef FIXED
    *last = 0;
#endif
    for (int i = 0; i < 3; ++i) total[i] = in[i];
    out[threadIdx.x] = total[0] + total[1] + total[2] + total[3];  // line
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 8 * sizeof(float)), cudaMalloc(&out, 32 * sizeof(float));
    cudaMemset(in, 0, 8 * sizeof(float));
    sums<<<1, 32>>>(in, out);
    return cudaDeviceSynchronize();
}
