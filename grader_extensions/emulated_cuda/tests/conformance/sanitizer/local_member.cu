// finds: error uninitialised_read
// The value of the best element is known at first, and its place is not.
struct Best {
    float value;
    int index;
};
template <class T>
__global__ void largest(const T* in, int* out, int n) {
    Best best;
    best.value = 0;
#ifdef FIXED
    best.index = -1;
#endif
    for (int i = 0; i < n; ++i)
        if (in[i] > best.value) best.value = in[i], best.index = i;
    out[threadIdx.x] = best.index;  // line
}
int main() {
    float* in;
    int* out;
    cudaMalloc(&in, 8 * sizeof(float)), cudaMalloc(&out, 32 * sizeof(int));
    cudaMemset(in, 0, 8 * sizeof(float));
    largest<<<1, 32>>>(in, out, 8);
    return cudaDeviceSynchronize();
}
