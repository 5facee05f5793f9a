// cuda_fp8.h: every fp8 value decoded, floats and halves encoded with and without saturation, the x2 and x4 types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstdio>

__device__ uint32_t hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ void add(unsigned long long* sum, uint32_t value, uint32_t place) { atomicAdd(sum, (unsigned long long)hash(value) * (2 * place + 1)); }

template <class T>
__device__ uint32_t float_bits_of(unsigned code) {
    T x;
    x.__x = (__nv_fp8_storage_t)code;
    return __float_as_uint(float(x));
}

template <class T>
__global__ void decode(__nv_fp8_interpretation_t kind, uint32_t* out, unsigned long long* sums) {
    unsigned code = threadIdx.x;
    T x;
    x.__x = (__nv_fp8_storage_t)code;
    out[code] = float_bits_of<T>(code);
    add(&sums[0], out[code], code);
    __half_raw raw = __nv_cvt_fp8_to_halfraw(x.__x, kind);
    add(&sums[1], raw.x, code);
    add(&sums[2], __half_as_ushort(__half(x)), code);
    add(&sums[3], __bfloat16_as_ushort(__nv_bfloat16(x)), code);
    __half2_raw two = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(code | (255 - code) << 8), kind);
    add(&sums[4], two.x | (uint32_t)two.y << 16, code);
    if (float(x) == float(x)) {
        add(&sums[5], (uint32_t)int(x) ^ (uint32_t)(unsigned char)(x) ^ (uint32_t)(signed char)(x) << 8 ^ (uint32_t)bool(x) << 16 ^ (uint32_t)(long long)(x), code);
        add(&sums[5], (uint32_t)__double_as_longlong(double(x)) ^ (uint32_t)(__double_as_longlong(double(x)) >> 32), code);
    }
}

__device__ float sample(uint32_t i) {
    uint32_t h = hash(i), exponent = i % 2 ? 110 + hash(i + 9) % 36 : hash(i + 9) % 256;
    return __uint_as_float(i % 3 ? (h & 0x807fffffu) | exponent << 23 : (h & 0x80700000u) | (112 + hash(i + 9) % 32) << 23);
}

__global__ void encode(__nv_fp8_interpretation_t kind, __nv_saturation_t saturation, unsigned long long* sums) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    float f = sample(i);
    add(&sums[0], __nv_cvt_float_to_fp8(f, saturation, kind), i);
    add(&sums[1], __nv_cvt_double_to_fp8((double)f * (1 + 0x1p-40), saturation, kind), i);
    __half_raw h;
    h.x = (unsigned short)hash(i + 3);
    add(&sums[2], __nv_cvt_halfraw_to_fp8(h, saturation, kind), i);
    __nv_bfloat16_raw b;
    b.x = (unsigned short)(__float_as_uint(f) >> 16);
    add(&sums[3], __nv_cvt_bfloat16raw_to_fp8(b, saturation, kind), i);
    add(&sums[4], __nv_cvt_float2_to_fp8x2(make_float2(f, sample(i + 1)), saturation, kind), i);
    __half2_raw h2;
    h2.x = (unsigned short)hash(i + 4), h2.y = (unsigned short)hash(i + 5);
    add(&sums[5], __nv_cvt_halfraw2_to_fp8x2(h2, saturation, kind), i);
}

template <class T, class T2, class T4>
__global__ void types(uint32_t* out) {
    float f[] = {1.0f, -0.3f, 1000.0f, 1e6f, 1e-9f, 0.0009765625f, 17.0f, 19.0f, __uint_as_float(0x7fc00000u), __uint_as_float(0xff800000u)};
    int n = 0;
    for (float x : f) out[n++] = T(x).__x;
    out[n++] = T(300).__x, out[n++] = T(-7ll).__x, out[n++] = T(250u).__x, out[n++] = T(0.1).__x, out[n++] = T(__float2half(2.3f)).__x, out[n++] = T(__float2bfloat16(2.3f)).__x;
    T2 two(make_float2(1.5f, -2.25f));
    float2 back = two.operator float2();
    out[n++] = two.__x, out[n++] = __float_as_uint(back.x), out[n++] = __float_as_uint(back.y);
    out[n++] = T2(__floats2half2_rn(3.3f, 0.7f)).__x, out[n++] = T2(__floats2bfloat162_rn(3.3f, 0.7f)).__x;
    __half2 pair = __half2(two);
    out[n++] = __half_as_ushort(__low2half(pair)), out[n++] = __half_as_ushort(__high2half(pair));
    T4 four(make_float4(1.0f, 2.0f, -3.0f, 500.0f));
    float4 wide = four.operator float4();
    out[n++] = four.__x, out[n++] = __float_as_uint(wide.z), out[n++] = __float_as_uint(wide.w);
    out[n++] = sizeof(T) + sizeof(T2) * 16 + sizeof(T4) * 256;
    out[n] = 0xffffffffu;
}

template <class T, class T2, class T4>
void show(const char* name, __nv_fp8_interpretation_t kind, uint32_t* out, unsigned long long* sums) {
    auto clear = [sums] { for (int i = 0; i < 6; ++i) sums[i] = 0; };
    auto print = [name, sums](const char* what) {
        cudaDeviceSynchronize();
        printf("%s %s:", name, what);
        for (int i = 0; i < 6; ++i) printf(" %016llx", sums[i]);
        printf("\n");
    };
    clear();
    decode<T><<<1, 256>>>(kind, out, sums);
    print("decode");
    for (int code : {0, 1, 7, 8, 0x38, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0xfc, 0xff}) printf("%08x ", out[code]);
    printf("\n");
    clear();
    encode<<<64, 256>>>(kind, __NV_SATFINITE, sums);
    print("saturating");
    clear();
    encode<<<64, 256>>>(kind, __NV_NOSAT, sums);
    print("not saturating");
    types<T, T2, T4><<<1, 1>>>(out);
    cudaDeviceSynchronize();
    for (int i = 0; out[i] != 0xffffffffu; ++i) printf("%x ", out[i]);
    printf("\n");
}

int main() {
    uint32_t* out;
    unsigned long long* sums;
    cudaMallocManaged(&out, 256 * sizeof *out);
    cudaMallocManaged(&sums, 6 * sizeof *sums);
    show<__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3>("e4m3", __NV_E4M3, out, sums);
    show<__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2>("e5m2", __NV_E5M2, out, sums);
    return cudaGetLastError();
}
