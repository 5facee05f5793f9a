// float4 and its kin: construction, members, and loads of sixteen bytes.
#include <cstdint>
#include <cstdio>
__global__ void quads(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 4 < n) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v.x += v.w;
        float2 p = make_float2(v.x, v.y);
        reinterpret_cast<float4*>(out)[i] = make_float4(p.x, p.y, v.z, 1.0f);
    }
}
__global__ void kinds(int* out) {
    int3 a = make_int3(1, 2, 3);
    uint4 b = make_uint4(4, 5, 6, 7);
    uchar4 c = make_uchar4(250, 1, 2, 3);
    double2 d = make_double2(0.5, 1.5);
    short2 e = {8, 9};
    longlong2 f = make_longlong2(10, 11);
    dim3 g(12);
    out[0] = a.x + a.y + a.z + b.x + b.w + c.x + c.w + (int)(d.x + d.y) + e.y + (int)f.y + g.x + g.y;
    out[1] = sizeof(float3) + 100 * alignof(float4) + 10000 * alignof(double2);
    uint32_t packed = *reinterpret_cast<uint32_t*>(&c);
    out[2] = packed >> 24;
}
int main() {
    float h[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *x, *out;
    int k[3], *d;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, sizeof h), cudaMalloc(&d, sizeof k);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    quads<<<1, 32>>>(x, out, 8);
    kinds<<<1, 1>>>(d);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(k, d, sizeof k, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    printf("%d %d %d\n", k[0], k[1], k[2]);
}
