// finds: error unchecked_launch
// A block of 1025 threads.
__global__ void nothing() {}
int main() {
    nothing<<<1, 1025>>>();  // line
#ifdef FIXED
    return cudaGetLastError() == cudaSuccess;
#endif
}
