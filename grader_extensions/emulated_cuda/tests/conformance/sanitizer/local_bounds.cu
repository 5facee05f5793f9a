// finds: error out_of_bounds
// A thread's own array has no element 4.
__global__ void sum(int* out, int count) {
    int own[4] = {1, 2, 3, 4}, all = 0;
    for (int i = 0; i < count; ++i) all += own[i];  // line
    *out = all;
}
int main() {
    int* out;
    cudaMalloc(&out, sizeof(int));
#ifdef FIXED
    sum<<<1, 1>>>(out, 4);
#else
    sum<<<1, 1>>>(out, 5);
#endif
    return cudaDeviceSynchronize();
}
