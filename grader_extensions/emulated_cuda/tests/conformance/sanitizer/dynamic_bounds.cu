// finds: error out_of_bounds
// Dynamic shared memory for 13 floats, used as 14.
__global__ void fill(float* out) {
    extern __shared__ float box[];
    box[threadIdx.x] = threadIdx.x;  // line
    __syncthreads();
    out[threadIdx.x] = box[0];
}
int main() {
    float* out;
    cudaMalloc(&out, 14 * sizeof(float));
#ifdef FIXED
    fill<<<1, 14, 14 * sizeof(float)>>>(out);
#else
    fill<<<1, 14, 13 * sizeof(float)>>>(out);
#endif
    return cudaDeviceSynchronize();
}
