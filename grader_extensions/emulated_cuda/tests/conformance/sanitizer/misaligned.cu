// finds: error misaligned
// A float4 starts at an odd float.
__global__ void copy(const float* in, float4* out, int offset) {
    out[threadIdx.x] = *reinterpret_cast<const float4*>(in + offset + 4 * threadIdx.x);  // line
}
int main() {
    static float h[36];
    float* in;
    float4* out;
    cudaMalloc(&in, sizeof h), cudaMalloc(&out, 8 * sizeof(float4));
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
#ifdef FIXED
    copy<<<1, 8>>>(in, out, 4);
#else
    copy<<<1, 8>>>(in, out, 1);
#endif
    return cudaDeviceSynchronize();
}
