// finds: error uninitialised_read
// A lambda has variables of its own, and so has a case of a switch; threads that exit leave theirs to nobody.
__global__ void choose(const float* in, float* out, int how) {
    float first;
    if (threadIdx.x % 2) return;
    auto half = [&](float x) {
        float y;
#ifdef FIXED
        y = 0;
#endif
        y += x / 2;  // line
        return y;
    };
    switch (how) {
    case 0:
        int unused;
        unused = 1;
        first = unused;
        break;
    case 1:
        unused = 2;
        first = unused;
    }
    __syncthreads();
    out[64 * blockIdx.x + threadIdx.x] = half(in[threadIdx.x]) + first;
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 64 * sizeof(float)), cudaMalloc(&out, 128 * sizeof(float));
    cudaMemset(in, 0, 64 * sizeof(float));
    for (int how = 0; how < 2; ++how) choose<<<2, 64>>>(in, out, how);
    return cudaDeviceSynchronize();
}
