// finds: error out_of_bounds
// One element too many.  The allocation ends 4 bytes before the page does, so there is no fault.
__global__ void fill(int* out, int n) {
    int i = threadIdx.x;
#ifdef FIXED
    if (i < n)
#else
    if (i <= n)
#endif
        out[i] = i;  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 17 * sizeof(int));
    fill<<<1, 32>>>(out, 17);
    return cudaDeviceSynchronize();
}
