// finds: nothing
// What the compiler's instrumentation does not show as a store, or shows as a load that the kernel does not make.
#include <cmath>
#include <type_traits>
#include <cuda_fp16.h>
struct Pair {
    float value;
    int index;
};
struct Padded {
    double value;
    char flag;
};
union Bits {
    float value;
    unsigned bits;
};
__device__ __noinline__ Pair made(int index) {
    Pair pair{};
    pair.index = index;
    return pair;
}
__device__ __noinline__ Pair operator+(Pair one, Pair other) {
    one.value += other.value;
    one.index += other.index;
    one.value += one.index * other.value * one.value;
    return one;
}
struct Large {
    float values[10];
};
__device__ __noinline__ Large filled(float x) {
    Large large;
    for (float& value : large.values) value = x;
    return large;
}
__device__ __noinline__ float4 loaded(const float* from) { return make_float4(from[0], from[1], from[2], from[3]); }
__device__ void parts(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
__global__ void returned(const float* in, float* out) {
    Pair one, two[2], sum, *place = &two[0];
    float values[4], more[4];
    one = made(1);
    two[1] = made(2);
    sum = one + two[1];
    *place = one + sum;
    Pair either, nested;
    either = in[0] > 4 ? made(3) : one + sum;
    sum.index += (nested = made(4)).index + nested.index;
    Large large, others[3];
    large = filled(in[1]);
    others[in[0] > 4] = filled(2);
    sum.value += large.values[9] + others[0].values[5] + either.value;
    half small;
    half2 two_small;
    small = __float2half(2);
    two_small = __float2half2_rn(2) + __floats2half2_rn(1, 2);
    small = small + two_small.x;
    float2 vector;
    vector = make_float2(1, 2);
    sum.value += __half2float(small) + vector.y;
    *reinterpret_cast<float4*>(values) = loaded(in);
    memcpy(more, values, sizeof more);
    out[threadIdx.x] = one.value + two[0].value + two[1].index + sum.index + values[3] + more[2];
}
__global__ void libraries(const float* in, float* out) {
    float sine, cosine, whole;
    int exponent, quotient;
    parts(in[0], &sine, &cosine);
    float sum = frexpf(in[0], &exponent) + std::modf(in[0], &whole) + remquof(in[0], 2, &quotient);
    out[threadIdx.x] = sum + sine + cosine + whole + exponent + quotient;
}
__global__ void conditions(const float* in, float* out, int n) {
    float x, best;
    bool known;
    known = false;
    float total = 0;
    for (int i = 0; i < n; ++i) {
        if (in[i] > 4) total += x;
        if (known && best > 1) total += 1;
        if (in[i] == 0) {
            if (known) total += best;
            best = in[i], known = true;
        }
    }
    for (int i = 0; i < n; ++i) {
        if (i % 2 == 0) x = i;
        else total += x;
    }
    out[threadIdx.x] = total;
}
__global__ void structs(float* out, Padded* copies) {
    Padded padded, other;
    padded.value = 1, padded.flag = 2;
    other = padded;
    copies[threadIdx.x] = other;
    Bits bits;
    bits.value = 1;
    float4 vector;
    vector.x = vector.y = 1;
    float4 copy = vector;
    out[threadIdx.x] = bits.bits + copy.x;
}
__device__ int depth(int n) {
    int own[4], result;
    own[n % 4] = n;
    result = n > 0 ? depth(n - 1) + own[n % 4] : 0;
    return result;
}
struct Sum {
    float values[2];
    __device__ void operator()(float x) {
        float half;
        half = x / 2;
        values[0] += half, values[1] += half;
    }
};
template <class T>
__device__ void fill(T* begin, T* end, T value) {
    for (; begin != end; ++begin) *begin = value;
}

template <class T>
__global__ void others(const T* in, T* out) {
    typename std::remove_cv<T>::type copy[3];
    volatile T watched;
    union {
        float value;
        int bits;
    } both;
    struct {
        unsigned low : 4, high : 4;
    } fields;
    int *pointer, number;
    pointer = &number;
    *pointer = 4;
    watched = 1;
    both.value = 1;
    fields.low = 3;
    Sum sum{};
    fill(copy, copy + 3, in[0]);
    for (int i = 0; i < 3; ++i) sum(copy[i]);
    if (threadIdx.x > 40) asm volatile("exit;");
    out[threadIdx.x] = copy[2] + watched + both.bits + fields.low + number + sum.values[1] + depth(40);
}
__global__ void warps(const float* in, float* out) {
    float x;
    if (threadIdx.x < 32) x = in[threadIdx.x];
    if (threadIdx.x < 32) x += __shfl_xor_sync(~0u, x, 1);
    __shared__ float first;
    if (threadIdx.x == 0) first = x;
    __syncthreads();
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[threadIdx.x] = first + lane;
}
int main() {
    float *in, *out;
    Padded* copies;
    cudaMalloc(&in, 64 * sizeof(float)), cudaMalloc(&out, 64 * sizeof(float)), cudaMalloc(&copies, 64 * sizeof(Padded));
    cudaMemset(in, 0, 64 * sizeof(float));
    returned<<<1, 64>>>(in, out);
    libraries<<<1, 64>>>(in, out);
    conditions<<<1, 64>>>(in, out, 8);
    structs<<<1, 64>>>(out, copies);
    others<<<1, 64>>>(in, out);
    others<<<1, 64>>>(in, out);
    warps<<<1, 64>>>(in, out);
    return cudaDeviceSynchronize();
}
