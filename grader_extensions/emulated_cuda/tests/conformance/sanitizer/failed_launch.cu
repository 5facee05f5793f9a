// finds: error unchecked_launch
// A block of 1025 threads. The launch after it fails too, and is not the one that this finding names.
__global__ void nothing() {}
int main() {
    nothing<<<1, 1025>>>();  // line
#ifdef FIXED
    return cudaGetLastError() == cudaSuccess;
#endif
    nothing<<<1, 0>>>();
}
