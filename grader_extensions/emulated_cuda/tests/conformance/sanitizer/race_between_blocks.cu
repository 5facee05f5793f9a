// finds: error race
// All blocks write one element.
__global__ void last(int* out) {
    int block = blockIdx.x;
#ifdef FIXED
    if (block == 3)
#endif
        out[0] = block;  // line other
}
int main() {
    int* out;
    cudaMalloc(&out, sizeof(int));
    last<<<4, 1>>>(out);
    return cudaDeviceSynchronize();
}
