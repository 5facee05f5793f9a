// finds: error inactive_lane
// The mask names lanes that are in the other branch.
__global__ void half(int* out) {
    int t = threadIdx.x, v = 0;
#ifdef FIXED
    const unsigned mask = 0xffff;
#else
    const unsigned mask = 0xffffffff;
#endif
    if (t < 16) v = __shfl_sync(mask, t, 3);  // line
    __syncthreads();
    out[t] = v;
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
    half<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
