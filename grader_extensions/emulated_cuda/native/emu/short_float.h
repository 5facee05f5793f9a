// The functions of one 16-bit float type and of its pair.  Included once for each type by cuda_fp16.h and cuda_bf16.h,
// which define EMU_T, EMU_T2, EMU_FORMAT, and EMU_OF(before, after), which pastes the type's word between its arguments.
// Sums, products and quotients go through float: 24 bits are enough for the second rounding to change nothing.

struct EMU_RAW {
    unsigned short x;
};
struct EMU_RAW2 {
    unsigned short x, y;
};

struct EMU_T {
    unsigned short __x;

    EMU_T() = default;
    constexpr EMU_T(const EMU_RAW& raw) : __x(raw.x) {}
    EMU_T(float value) : __x(emu::EMU_FORMAT::from_float(value)) {}
    EMU_T(double value) : __x(emu::EMU_FORMAT::from_double(value, emu::Rounding::Nearest)) {}
    EMU_T(int value) : EMU_T(static_cast<double>(value)) {}
    EMU_T(unsigned value) : EMU_T(static_cast<double>(value)) {}
    EMU_T(short value) : EMU_T(static_cast<float>(value)) {}
    EMU_T(unsigned short value) : EMU_T(static_cast<float>(value)) {}
    EMU_T(long value) : EMU_T(static_cast<double>(value)) {}
    EMU_T(unsigned long value) : EMU_T(static_cast<double>(value)) {}
    EMU_T(long long value) : EMU_T(static_cast<double>(value)) {}
    EMU_T(unsigned long long value) : EMU_T(static_cast<double>(value)) {}
    template <class T, class = decltype(&T::operator EMU_T)>  // torch's type of this format could else go by float, too
    explicit EMU_T(const T& value) : __x(value.operator EMU_T().__x) {}

    operator float() const { return emu::EMU_FORMAT::to_float(__x); }
    explicit operator double() const { return static_cast<float>(*this); }
    explicit operator int() const { return static_cast<int>(static_cast<float>(*this)); }
    explicit operator unsigned() const { return static_cast<unsigned>(static_cast<float>(*this)); }
    explicit operator short() const { return static_cast<short>(static_cast<float>(*this)); }
    explicit operator unsigned short() const { return static_cast<unsigned short>(static_cast<float>(*this)); }
    explicit operator long() const { return static_cast<long>(static_cast<float>(*this)); }
    explicit operator long long() const { return static_cast<long long>(static_cast<float>(*this)); }
    explicit operator bool() const { return (__x & 0x7fffu) != 0; }
    operator EMU_RAW() const { return {__x}; }

    EMU_T& operator=(float value) { return *this = EMU_T(value); }
    EMU_T& operator=(double value) { return *this = EMU_T(value); }
    EMU_T& operator=(int value) { return *this = EMU_T(value); }
};

struct alignas(4) EMU_T2 {
    EMU_T x, y;

    EMU_T2() = default;
    EMU_T2(const EMU_T& x, const EMU_T& y) : x(x), y(y) {}
    EMU_T2(const EMU_RAW2& raw) : x(EMU_RAW{raw.x}), y(EMU_RAW{raw.y}) {}
    operator EMU_RAW2() const { return {x.__x, y.__x}; }
};

namespace emu EMU_HIDDEN {
inline EMU_T EMU_OF(make_, )(unsigned short bits) { return EMU_T(EMU_RAW{bits}); }
}

inline float EMU_OF(__, 2float)(EMU_T a) { return a; }
inline EMU_T EMU_OF(__float2, )(float a) { return a; }
inline EMU_T EMU_OF(__double2, )(double a) { return a; }
inline unsigned short EMU_OF(__, _as_ushort)(EMU_T a) { return a.__x; }
inline short EMU_OF(__, _as_short)(EMU_T a) { return static_cast<short>(a.__x); }
inline EMU_T EMU_OF(__ushort_as_, )(unsigned short bits) { return emu::EMU_OF(make_, )(bits); }
inline EMU_T EMU_OF(__short_as_, )(short bits) { return emu::EMU_OF(make_, )(static_cast<unsigned short>(bits)); }

#define EMU_ROUNDED(from, From, suffix, how)                                                                      \
    inline EMU_T EMU_OF(__##from##2, suffix)(From a) {                                                            \
        return emu::EMU_OF(make_, )(emu::EMU_FORMAT::from_double(static_cast<double>(a), emu::Rounding::how));    \
    }
#define EMU_FROM(from, From)                                          \
    inline EMU_T EMU_OF(__##from##2, _rn)(From a) { return EMU_T(a); } \
    EMU_ROUNDED(from, From, _rz, TowardZero)                          \
    EMU_ROUNDED(from, From, _rd, Down)                                \
    EMU_ROUNDED(from, From, _ru, Up)
#define EMU_CONVERT(from, From)                                                                    \
    EMU_FROM(from, From)                                                                           \
    inline From EMU_OF(__, 2##from##_rn)(EMU_T a) { return emu::saturate_to_all<From>(rintf(a)); }  \
    inline From EMU_OF(__, 2##from##_rz)(EMU_T a) { return emu::saturate_to_all<From>(truncf(a)); } \
    inline From EMU_OF(__, 2##from##_rd)(EMU_T a) { return emu::saturate_to_all<From>(floorf(a)); } \
    inline From EMU_OF(__, 2##from##_ru)(EMU_T a) { return emu::saturate_to_all<From>(ceilf(a)); }
EMU_FROM(float, float)
EMU_CONVERT(int, int)
EMU_CONVERT(uint, unsigned)
EMU_CONVERT(short, short)
EMU_CONVERT(ushort, unsigned short)
EMU_CONVERT(ll, long long)
EMU_CONVERT(ull, unsigned long long)
#undef EMU_CONVERT
#undef EMU_FROM
#undef EMU_ROUNDED

inline EMU_T2 EMU_OF(__halves2, 2)(EMU_T a, EMU_T b) { return {a, b}; }
inline EMU_T2 EMU_OF(make_, 2)(EMU_T a, EMU_T b) { return {a, b}; }
inline EMU_T2 EMU_OF2(__, 2, 2)(EMU_T a) { return {a, a}; }
inline EMU_T2 EMU_OF(__float2, 2_rn)(float a) { return {a, a}; }
inline EMU_T2 EMU_OF(__floats2, 2_rn)(float a, float b) { return {a, b}; }
inline EMU_T2 EMU_OF(__float22, 2_rn)(float2 a) { return {a.x, a.y}; }
inline float2 EMU_OF(__, 22float2)(EMU_T2 a) { return {a.x, a.y}; }
inline EMU_T EMU_OF(__low2, )(EMU_T2 a) { return a.x; }
inline EMU_T EMU_OF(__high2, )(EMU_T2 a) { return a.y; }
inline float __low2float(EMU_T2 a) { return a.x; }
inline float __high2float(EMU_T2 a) { return a.y; }
inline EMU_T2 EMU_OF(__low2, 2)(EMU_T2 a) { return {a.x, a.x}; }
inline EMU_T2 EMU_OF(__high2, 2)(EMU_T2 a) { return {a.y, a.y}; }
inline EMU_T2 EMU_OF(__lows2, 2)(EMU_T2 a, EMU_T2 b) { return {a.x, b.x}; }
inline EMU_T2 EMU_OF(__highs2, 2)(EMU_T2 a, EMU_T2 b) { return {a.y, b.y}; }
inline EMU_T2 __lowhigh2highlow(EMU_T2 a) { return {a.y, a.x}; }

inline EMU_T __hneg(EMU_T a) { return emu::EMU_OF(make_, )(a.__x ^ 0x8000u); }
inline EMU_T __habs(EMU_T a) { return emu::EMU_OF(make_, )(a.__x & 0x7fffu); }
inline EMU_T __hfma(EMU_T a, EMU_T b, EMU_T c) { return EMU_T(fma(double(float(a)), double(float(b)), double(float(c)))); }
inline EMU_T __hfma_sat(EMU_T a, EMU_T b, EMU_T c) { return EMU_T(__saturatef(__hfma(a, b, c))); }
inline EMU_T __hfma_relu(EMU_T a, EMU_T b, EMU_T c) { return EMU_T(fmaxf(__hfma(a, b, c), 0.0f)); }
inline EMU_T __hmax_nan(EMU_T a, EMU_T b) { return a != a || b != b ? emu::EMU_OF(make_, )(0x7fff) : EMU_T(fmaxf(a, b)); }
inline EMU_T __hmin_nan(EMU_T a, EMU_T b) { return a != a || b != b ? emu::EMU_OF(make_, )(0x7fff) : EMU_T(fminf(a, b)); }
inline EMU_T2 __hmax2_nan(EMU_T2 a, EMU_T2 b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }
inline EMU_T2 __hmin2_nan(EMU_T2 a, EMU_T2 b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }
inline EMU_T2 __hneg2(EMU_T2 a) { return {__hneg(a.x), __hneg(a.y)}; }
inline EMU_T2 __habs2(EMU_T2 a) { return {__habs(a.x), __habs(a.y)}; }
inline EMU_T2 __hfma2(EMU_T2 a, EMU_T2 b, EMU_T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline EMU_T2 __hfma2_sat(EMU_T2 a, EMU_T2 b, EMU_T2 c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }
inline EMU_T2 __hfma2_relu(EMU_T2 a, EMU_T2 b, EMU_T2 c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }

#define EMU_BINARY(name, suffix, expression)                                                                            \
    inline EMU_T __h##name##suffix(EMU_T left, EMU_T right) { float a = left, b = right; return EMU_T(expression); }     \
    inline EMU_T2 __h##name##2##suffix(EMU_T2 a, EMU_T2 b) { return {__h##name##suffix(a.x, b.x), __h##name##suffix(a.y, b.y)}; }
EMU_BINARY(add, , a + b)
EMU_BINARY(sub, , a - b)
EMU_BINARY(mul, , a * b)
EMU_BINARY(add, _rn, a + b)
EMU_BINARY(sub, _rn, a - b)
EMU_BINARY(mul, _rn, a * b)
EMU_BINARY(max, , fmaxf(a, b))
EMU_BINARY(min, , fminf(a, b))
EMU_BINARY(add, _sat, __saturatef(a + b))
EMU_BINARY(sub, _sat, __saturatef(a - b))
EMU_BINARY(mul, _sat, __saturatef(a * b))
#undef EMU_BINARY
inline EMU_T __hdiv(EMU_T a, EMU_T b) { return EMU_T(float(a) / float(b)); }
inline EMU_T2 __h2div(EMU_T2 a, EMU_T2 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }

// Where one is NaN the first five and `ne` are false; those that end in u are true.
#define EMU_COMPARE(name, expression)                                                                            \
    inline bool __h##name(EMU_T left, EMU_T right) { float a = left, b = right; return expression; }             \
    inline EMU_T2 __h##name##2(EMU_T2 a, EMU_T2 b) {                                                             \
        return {EMU_T(__h##name(a.x, b.x) ? 1.0f : 0.0f), EMU_T(__h##name(a.y, b.y) ? 1.0f : 0.0f)};             \
    }                                                                                                            \
    inline unsigned __h##name##2_mask(EMU_T2 a, EMU_T2 b) {                                                      \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);                  \
    }                                                                                                            \
    inline bool __hb##name##2(EMU_T2 a, EMU_T2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
EMU_COMPARE(eq, a == b)
EMU_COMPARE(lt, a < b)
EMU_COMPARE(le, a <= b)
EMU_COMPARE(gt, a > b)
EMU_COMPARE(ge, a >= b)
EMU_COMPARE(ne, a < b || a > b)
EMU_COMPARE(equ, !(a < b || a > b))
EMU_COMPARE(ltu, !(a >= b))
EMU_COMPARE(leu, !(a > b))
EMU_COMPARE(gtu, !(a <= b))
EMU_COMPARE(geu, !(a < b))
EMU_COMPARE(neu, a != b)
#undef EMU_COMPARE
#define EMU_COMPARE(op, name)                                                           \
    inline bool operator op(const EMU_T& a, const EMU_T& b) { return __h##name(a, b); } \
    inline bool operator op(const EMU_T2& a, const EMU_T2& b) { return __hb##name##2(a, b); }
EMU_COMPARE(==, eq)
EMU_COMPARE(!=, neu)
EMU_COMPARE(<, lt)
EMU_COMPARE(<=, le)
EMU_COMPARE(>, gt)
EMU_COMPARE(>=, ge)
#undef EMU_COMPARE
inline bool __hisnan(EMU_T a) { return (a.__x & 0x7fffu) > EMU_INFINITY; }
inline EMU_T2 __hisnan2(EMU_T2 a) { return {EMU_T(__hisnan(a.x) ? 1.0f : 0.0f), EMU_T(__hisnan(a.y) ? 1.0f : 0.0f)}; }
inline int __hisinf(EMU_T a) { return (a.__x & 0x7fffu) == EMU_INFINITY ? (a.__x & 0x8000u ? -1 : 1) : 0; }

#define EMU_OPERATOR(op, name, name2)                                                                \
    inline EMU_T operator op(const EMU_T& a, const EMU_T& b) { return name(a, b); }                  \
    inline EMU_T& operator op##=(EMU_T& a, const EMU_T& b) { return a = name(a, b); }                \
    inline EMU_T2 operator op(const EMU_T2& a, const EMU_T2& b) { return name2(a, b); }              \
    inline EMU_T2& operator op##=(EMU_T2& a, const EMU_T2& b) { return a = name2(a, b); }
EMU_OPERATOR(+, __hadd, __hadd2)
EMU_OPERATOR(-, __hsub, __hsub2)
EMU_OPERATOR(*, __hmul, __hmul2)
EMU_OPERATOR(/, __hdiv, __h2div)
#undef EMU_OPERATOR
inline EMU_T operator-(const EMU_T& a) { return __hneg(a); }
inline EMU_T operator+(const EMU_T& a) { return a; }
inline EMU_T2 operator-(const EMU_T2& a) { return __hneg2(a); }
inline EMU_T& operator++(EMU_T& a) { return a = a + EMU_T(1.0f); }
inline EMU_T& operator--(EMU_T& a) { return a = a - EMU_T(1.0f); }

#define EMU_UNARY(name, expression)                                                        \
    inline EMU_T h##name(EMU_T value) { float a = value; return EMU_T(expression); }       \
    inline EMU_T2 h2##name(EMU_T2 a) { return {h##name(a.x), h##name(a.y)}; }
EMU_UNARY(exp, expf(a))
EMU_UNARY(exp2, exp2f(a))
EMU_UNARY(exp10, __exp10f(a))
EMU_UNARY(log, logf(a))
EMU_UNARY(log2, log2f(a))
EMU_UNARY(log10, log10f(a))
EMU_UNARY(sqrt, sqrtf(a))
EMU_UNARY(rsqrt, 1.0 / ::sqrt(double(a)))
EMU_UNARY(rcp, 1.0f / a)
EMU_UNARY(sin, sinf(a))
EMU_UNARY(cos, cosf(a))
EMU_UNARY(tanh, tanhf(a))
EMU_UNARY(floor, floorf(a))
EMU_UNARY(ceil, ceilf(a))
EMU_UNARY(trunc, truncf(a))
EMU_UNARY(rint, rintf(a))
#undef EMU_UNARY

inline EMU_T __ldg(const EMU_T* address) { return *address; }
EMU_ATOMIC(atomicAdd, EMU_T, return emu::update(address, [value](EMU_T old) { return old + value; }))
EMU_ATOMIC(atomicAdd, EMU_T2, return emu::update(address, [value](EMU_T2 old) { return old + value; }))
inline EMU_T atomicCAS(EMU_T* address, EMU_T compare, EMU_T value) {
    return emu::EMU_OF(make_, )(atomicCAS(reinterpret_cast<unsigned short*>(address), compare.__x, value.__x));
}

#undef EMU_T
#undef EMU_T2
#undef EMU_RAW
#undef EMU_RAW2
#undef EMU_FORMAT
#undef EMU_INFINITY
#undef EMU_OF
#undef EMU_OF2
