// Integer intrinsics and reinterpretations.
#include <cstdio>
__global__ void bits(long long* out) {
    int i = 0;
    out[i++] = __clz(1 << 20), out[i++] = __clz(0), out[i++] = __clzll(1ll << 40);
    out[i++] = __popc(0xf0f0u), out[i++] = __popcll(~0ull), out[i++] = __ffs(24), out[i++] = __ffs(0), out[i++] = __ffsll(1ll << 50);
    out[i++] = __brev(1u), out[i++] = __brev(0x12345678u), out[i++] = __byte_perm(0x11223344, 0x55667788, 0x7531);
    out[i++] = __umulhi(0xffffffffu, 16u), out[i++] = __mulhi(-5, 1 << 30), out[i++] = __mul24(1000, -3);
    out[i++] = __float_as_int(1.5f), out[i++] = (int)__int_as_float(0x42280000), out[i++] = __double_as_longlong(1.0);
    out[i++] = __float2int_rn(2.5f), out[i++] = __float2int_rz(-2.7f), out[i++] = __float2int_ru(2.1f), out[i++] = __float2int_rd(-2.1f);
    out[i++] = __funnelshift_l(0x80000000u, 1u, 1), out[i++] = __funnelshift_r(1u, 3u, 4), out[i++] = __sad(3, 10, 5);
    out[i++] = __dp4a(0x01020304, 0x01010102, 10), out[i++] = __hadd(7, 8), out[i++] = __float2uint_rn(-1.0f), out[i++] = __float2int_rz(1e20f);
}
int main() {
    long long h[28], *out;
    cudaMalloc(&out, sizeof h);
    bits<<<1, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 28; ++i) printf("%lld%c", h[i], i % 7 == 6 ? '\n' : ' ');
}
