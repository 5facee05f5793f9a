// finds: error uninitialised_read
// A variable of a loop's body is a new one each time: what the turn before has written is gone.
__global__ void rows(const float* in, float* out, int n) {
    for (int row = 0; row < n; ++row) {
        float total, factor = 2;
#ifdef FIXED
        total = 0;
#else
        if (row == 0) total = 0;
#endif
        total += factor * in[row];  // line
        out[row] = total;
    }
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 8 * sizeof(float)), cudaMalloc(&out, 8 * sizeof(float));
    cudaMemset(in, 0, 8 * sizeof(float));
    rows<<<1, 1>>>(in, out, 8);
    return cudaDeviceSynchronize();
}
