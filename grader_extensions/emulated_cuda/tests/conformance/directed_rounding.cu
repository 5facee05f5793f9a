// Arithmetic and conversions rounded down, up, to zero and to the nearest: a sum over numbers of all sizes, for each function.
#include <cstdio>
#define EACH(F, name, T, ...) F(name##_rn, T, name##_rn(__VA_ARGS__)) F(name##_rd, T, name##_rd(__VA_ARGS__)) \
    F(name##_ru, T, name##_ru(__VA_ARGS__)) F(name##_rz, T, name##_rz(__VA_ARGS__))
#define REALS(F, letter, fused, T) \
    EACH(F, __##letter##add, T, a.T##_, b.T##_) EACH(F, __##letter##sub, T, a.T##_, b.T##_) EACH(F, __##letter##mul, T, a.T##_, b.T##_) \
    EACH(F, __##letter##div, T, a.T##_, b.T##_) EACH(F, __##letter##rcp, T, a.T##_) EACH(F, __##letter##sqrt, T, a.T##_) \
    EACH(F, fused, T, a.T##_, b.T##_, c.T##_)
#define ALL(F) \
    REALS(F, f, __fmaf, float) REALS(F, d, __fma, double) EACH(F, __double2float, float, i & 32 ? a.double_ * 0x1p-130 : a.double_) \
    EACH(F, __int2float, float, (int)(word >> 32) >> (i & 31)) EACH(F, __uint2float, float, (unsigned)(word >> 32) >> (i & 31)) \
    EACH(F, __ll2float, float, (long long)word >> (i & 63)) EACH(F, __ull2float, float, word >> (i & 63)) \
    EACH(F, __ll2double, double, (long long)word >> (i & 63)) EACH(F, __ull2double, double, word >> (i & 63))

typedef unsigned long long Word;
struct Operand {
    float float_;
    double double_;
};

__device__ Word hashed(Word x) {  // splitmix64
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

// Any pattern, a number near 1, an edge, or a number near 1 of few digits.
__device__ Word pattern(unsigned i, Word word, int digits, Word bias) {
    Word sign = (word >> 63) << (digits == 23 ? 31 : 63), one = 1, mantissa = word & ((one << digits) - 1);
    Word edges[8] = {0, 1, (one << digits) - 1, one << digits, bias << digits, (bias << digits) + 1, ((2 * bias + 1) << digits) - 1, (2 * bias + 1) << digits};
    if (i % 4 == 0) return digits == 23 ? word >> 32 : word;
    if (i % 4 == 2) return sign | edges[word >> 56 & 7];
    return sign | (bias - 16 + (word >> 56 & 31)) << digits | (i % 4 == 1 ? mantissa : mantissa >> (digits - 6) << (digits - 6));
}

__device__ Operand operand(unsigned i, int which) {
    Word word = hashed(3 * i + which);
    unsigned kind = which == 0 ? i : i / 4 + which;
    return {__int_as_float((int)pattern(kind, word, 23, 127)), __longlong_as_double((long long)pattern(kind, word, 52, 1023))};
}

__device__ Word bits(float x) { return x != x ? 0x7fffffff : (unsigned)__float_as_int(x); }
__device__ Word bits(double x) { return x != x ? 0x7fffffffffffffffull : (Word)__double_as_longlong(x); }

#define KERNEL(name, T, expression)                                                        \
    __global__ void sum_of_##name(Word* sum) {                                             \
        Word part = 0;                                                                     \
        for (unsigned i = threadIdx.x; i < 512; i += blockDim.x) {                         \
            Operand a = operand(i, 0), b = operand(i, 1), c = operand(i, 2);               \
            if (i % 8 == 5) c = {-__fmul_rn(a.float_, b.float_), -__dmul_rn(a.double_, b.double_)}; \
            Word word = hashed(3 * i);                                                     \
            T result = expression;                                                         \
            part += bits(result) * hashed(i);                               \
        }                                                                                  \
        atomicAdd(sum, part);                                                              \
    }
ALL(KERNEL)

int main() {
    Word h = 0, *sum;
    cudaMalloc(&sum, sizeof h);
#define PRINT(name, T, expression)                              \
    cudaMemset(sum, 0, sizeof h);                               \
    sum_of_##name<<<1, 64>>>(sum);                              \
    cudaMemcpy(&h, sum, sizeof h, cudaMemcpyDeviceToHost);      \
    printf("%s %016llx\n", #name, h);
    ALL(PRINT)
}
