// finds: warning race
// Lanes exchange values through shared memory and trust that they run together.
__global__ void reverse(int* out) {
    __shared__ int box[32];
    int t = threadIdx.x;
    box[t] = t;  // other
#ifdef FIXED
    __syncwarp();
#endif
    out[t] = box[t / 2];  // line
}
int main() {
    int* out;
    cudaMalloc(&out, 32 * sizeof(int));
    reverse<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
