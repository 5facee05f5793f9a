// finds: error uninitialised_read
// cudaMalloc gives no zeros.
__global__ void count(int* out) {
    out[threadIdx.x] += 1;  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
#ifdef FIXED
    cudaMemset(out, 0, 32 * sizeof(int));
#endif
    count<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
