// finds: error inactive_lane
// Half of the warp has returned when the rest sums over all of it.
__global__ void sum(int* out) {
    int t = threadIdx.x, v = t;
#ifndef FIXED
    if (t >= 16) return;
#endif
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);  // line
    if (t == 0) *out = v;
}
int main() {
    int* out;
    cudaMalloc(&out, sizeof(int));
    sum<<<1, 32>>>(out);
    return cudaDeviceSynchronize();
}
