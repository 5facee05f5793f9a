// finds: info race
// Many threads set one flag, to the same value.
__global__ void flag(int* out) {
#ifdef FIXED
    if (threadIdx.x == 0 && blockIdx.x == 0)
#endif
        *out = 1;  // line other
}
int main() {
    int* out;
    cudaMalloc(&out, sizeof(int));
    flag<<<1, 64>>>(out);
    return cudaDeviceSynchronize();
}
