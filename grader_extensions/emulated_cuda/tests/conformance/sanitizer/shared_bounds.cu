// finds: error out_of_bounds
// A row of 33 columns is read at column 33.
__global__ void shift(int* out) {
    __shared__ int tile[32][33];
    for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = row;
    if (threadIdx.x == 0)
        for (int row = 0; row < 32; ++row) tile[row][32] = row;
    __syncthreads();
#ifdef FIXED
    int last = 31;
#else
    int last = 32;
#endif
    if (threadIdx.x == last - 1 || threadIdx.x == 31) out[threadIdx.x] = tile[1][threadIdx.x + 1 + last - 31];  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
    shift<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
