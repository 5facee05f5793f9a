// Inline PTX on registers: integers, bits, floats, short floats and conversions, each as the bits that come out.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>

#define PUT(value) out[n++ * 32 + lane] = (value)
static constexpr int most = 160;

__device__ int integers(uint32_t* out, int n, int lane, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("add.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("sub.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("mul.lo.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("mul.hi.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    asm("mad.hi.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    asm("div.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(c | 1)); PUT(r);
    asm("rem.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(c | 1)); PUT(r);
    asm("min.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("min.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("max.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("abs.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("neg.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); PUT(r);
    uint64_t wide, packed;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(wide) : "r"(a), "r"(b));
    PUT(static_cast<uint32_t>(wide >> 32));
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(packed) : "r"(a), "r"(b), "l"(wide));
    PUT(static_cast<uint32_t>(packed >> 17));
    uint32_t low, high;
    asm("{\n\t.reg .b32 lo, hi;\n\tmov.b64 {lo, hi}, %2;\n\tadd.cc.u32 %0, lo, %3;\n\taddc.u32 %1, hi, 0;\n\t}" : "=r"(low), "=r"(high) : "l"(packed), "r"(b));
    PUT(low);
    PUT(high);
    asm("mov.b64 %0, {%1, %2};" : "=l"(wide) : "r"(high), "r"(low));
    PUT(static_cast<uint32_t>(wide >> 20));
    asm("sub.s64 %0, %1, %2;" : "=l"(wide) : "l"(wide), "l"(packed));
    PUT(static_cast<uint32_t>(wide >> 30));
    uint16_t half_word;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; xor.b16 %0, low, high; }" : "=h"(half_word) : "r"(a));
    PUT(half_word);
    return n;
}

__device__ int bits(uint32_t* out, int n, int lane, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    uint32_t shift = lane * 3;
    asm("and.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("or.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("xor.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); PUT(r);
    asm("not.b32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(shift)); PUT(r);
    asm("shr.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(shift)); PUT(r);
    asm("shr.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(shift)); PUT(r);
    asm("shr.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(shift)); PUT(r);
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(shift)); PUT(r);
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(shift)); PUT(r);
    asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(shift)); PUT(r);
    asm("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(shift)); PUT(r);
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 0xffff)); PUT(r);
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x5410 | (c & 0x8888))); PUT(r);
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("prmt.b32.b4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("prmt.b32.ecr %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(lane & 3)); PUT(r);
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(lane), "r"(lane / 2)); PUT(r);
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(lane), "r"(lane / 2)); PUT(r);
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(lane + 10), "r"(12)); PUT(r);
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(lane), "r"(c & 31));
    PUT(r);
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    PUT(r);
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"((0xf0 & 0xcc) ^ 0xaa));
    PUT(r);
    asm("popc.b32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("clz.b32 %0, %1;" : "=r"(r) : "r"(a >> lane)); PUT(r);
    asm("brev.b32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(a >> lane)); PUT(r);
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a >> lane)); PUT(r);
    uint64_t wide = static_cast<uint64_t>(a) << 32 | b, moved;
    asm("shr.s64 %0, %1, %2;" : "=l"(moved) : "l"(wide), "r"(shift));
    PUT(static_cast<uint32_t>(moved));
    asm("popc.b64 %0, %1;" : "=r"(r) : "l"(wide));
    PUT(r);
    return n;
}

__device__ int choices(uint32_t* out, int n, int lane, uint32_t a, uint32_t b, float x) {
    uint32_t r, s = 7;
    asm("{\n"
        "  .reg .pred p, q, both;\n"
        "  setp.lt.s32 p, %1, %2;\n"
        "  setp.hi.u32 q, %1, %2;   // unsigned\n"
        "  and.pred both, p, q;\n"
        "  selp.b32 %0, 100, 200, both;\n"
        "  @!both add.u32 %0, %0, 1;\n"
        "}\n"
        : "=r"(r)
        : "r"(a), "r"(b));
    PUT(r);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; @p mov.u32 %0, %2; }" : "+r"(s) : "r"(lane & 1), "r"(b));
    PUT(s);
    asm("{ .reg .pred p; .reg .pred q; setp.gt.f32 p|q, %1, 0f3F800000; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 10; }" : "=r"(r) : "f"(x));
    PUT(r);
    asm("{ .reg .pred p, q; setp.eq.s32 q, %2, 3; setp.lt.and.s32 p, %1, %2, !q; selp.s32 %0, -1, 5, p; }" : "=r"(r) : "r"(a), "r"(lane));
    PUT(r);
    asm("{ .reg .pred p; setp.ltu.f32 p, %1, 0f00000000; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(lane == 4 ? __int_as_float(0x7fc00000) : x));
    PUT(r);
    // A loop: count the steps of Euclid's algorithm.
    asm("{\n"
        ".reg .pred done;\n"
        ".reg .u32 x, y, t, steps;\n"
        "mov.u32 x, %1;\n"
        "mov.u32 y, %2;\n"
        "mov.u32 steps, 0;\n"
        "AGAIN:\n"
        "setp.eq.u32 done, y, 0;\n"
        "@done bra FINISHED;\n"
        "rem.u32 t, x, y;\n"
        "mov.u32 x, y;\n"
        "mov.u32 y, t;\n"
        "add.u32 steps, steps, 1;\n"
        "bra AGAIN;\n"
        "FINISHED:\n"
        "mov.u32 %0, steps;\n"
        "}"
        : "=r"(r)
        : "r"(a), "r"(b));
    PUT(r);
    asm("{ .reg .u32 t<3>; mov.u32 t0, %1; mov.u32 t1, %2; add.u32 t2, t0, t1; mov.u32 %0, t2; }" : "=r"(r) : "r"(a), "r"(lane));
    PUT(r);
    asm(R"(
        {
            .reg .b32 %%t;          /* a register whose name starts with a percent sign */
            xor.b32 %%t, %1, 0xFFU;
            mov.b32 %0, %%t;
        })"
        : "=r"(r)
        : "r"(a));
    PUT(r);
    return n;
}

__device__ int floats(uint32_t* out, int n, int lane, float x, float y, float z) {
    float f;
    float tiny = __int_as_float(0x00000100 + lane), nan = __int_as_float(0x7fc00000);
    asm("add.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("add.rz.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("add.ftz.f32 %0, %1, %2;" : "=f"(f) : "f"(tiny), "f"(tiny)); PUT(__float_as_uint(f));
    asm("sub.rn.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("mul.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(tiny)); PUT(__float_as_uint(f));
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(f) : "f"(x), "f"(y), "f"(z)); PUT(__float_as_uint(f));
    asm("fma.rz.f32 %0, %1, %2, %3;" : "=f"(f) : "f"(x), "f"(y), "f"(z)); PUT(__float_as_uint(f));
    asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;" : "=f"(f) : "f"(x), "f"(y), "f"(z)); PUT(__float_as_uint(f));
    asm("mad.rn.f32 %0, %1, %2, %3;" : "=f"(f) : "f"(x), "f"(y), "f"(z)); PUT(__float_as_uint(f));
    asm("div.rn.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("min.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("max.f32 %0, %1, %2;" : "=f"(f) : "f"(lane & 1 ? nan : x), "f"(y)); PUT(__float_as_uint(f));
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(f) : "f"(lane & 1 ? nan : x), "f"(y)); PUT(__float_as_uint(f));
    asm("max.ftz.f32 %0, %1, %2;" : "=f"(f) : "f"(tiny), "f"(-1.0f)); PUT(__float_as_uint(f));
    asm("abs.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("neg.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("copysign.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y)); PUT(__float_as_uint(f));
    asm("sqrt.rn.f32 %0, %1;" : "=f"(f) : "f"(fabsf(x))); PUT(__float_as_uint(f));
    asm("rcp.rn.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("ex2.approx.f32 %0, %1;" : "=f"(f) : "f"(static_cast<float>(lane - 16))); PUT(__float_as_uint(f));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(f) : "f"(-130.0f)); PUT(__float_as_uint(f));
    asm("lg2.approx.f32 %0, %1;" : "=f"(f) : "f"(static_cast<float>(1 << lane % 30))); PUT(__float_as_uint(f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(f) : "f"(static_cast<float>(1 << lane % 30))); PUT(__float_as_uint(f));
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(f) : "f"(static_cast<float>(1 << lane % 15 * 2))); PUT(__float_as_uint(f));
    asm("sin.approx.f32 %0, %1;" : "=f"(f) : "f"(0.0f)); PUT(__float_as_uint(f));
    asm("cos.approx.f32 %0, %1;" : "=f"(f) : "f"(0.0f)); PUT(__float_as_uint(f));
    double d;
    asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(d) : "d"(static_cast<double>(x)), "d"(1.0 / 3), "d"(0.1));
    PUT(static_cast<uint32_t>(__double_as_longlong(d)));
    // The approximate functions, by how far they may be from the truth.
    float t = lane / 8.0f - 1.9f, e, h, s, l;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    asm("tanh.approx.f32 %0, %1;" : "=f"(h) : "f"(t));
    asm("sin.approx.f32 %0, %1;" : "=f"(s) : "f"(t));
    asm("lg2.approx.f32 %0, %1;" : "=f"(l) : "f"(lane + 0.3f));
    PUT((fabs(e - exp2((double)t)) < 1e-6 * exp2((double)t)) + 2 * (fabs(h - tanh((double)t)) < 1e-3) + 4 * (fabs(s - sin((double)t)) < 1e-6) +
        8 * (fabs(l - log2(lane + 0.3)) < 1e-5));
    return n;
}

__device__ int short_floats(uint32_t* out, int n, int lane, float x, float y, float z) {
    uint32_t r;
    uint32_t hx, hy, hz, bx, by, bz;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(hx) : "f"(x), "f"(y));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(hy) : "f"(y), "f"(z));
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(hz) : "f"(z), "f"(x));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bx) : "f"(x), "f"(y));
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(by) : "f"(y), "f"(z));
    asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(bz) : "f"(z), "f"(x));
    PUT(hx), PUT(hy), PUT(hz), PUT(bx), PUT(by), PUT(bz);
    asm("add.f16x2 %0, %1, %2;" : "=r"(r) : "r"(hx), "r"(hy)); PUT(r);
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(hx), "r"(hy)); PUT(r);
    asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(hx), "r"(hy)); PUT(r);
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(hx), "r"(hy), "r"(hz)); PUT(r);
    asm("fma.rn.relu.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(hx), "r"(hy), "r"(hz)); PUT(r);
    asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(hx), "r"(hy)); PUT(r);
    asm("min.f16x2 %0, %1, %2;" : "=r"(r) : "r"(hx), "r"(hy)); PUT(r);
    asm("neg.f16x2 %0, %1;" : "=r"(r) : "r"(hx)); PUT(r);
    asm("abs.f16x2 %0, %1;" : "=r"(r) : "r"(hx)); PUT(r);
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(bx), "r"(by), "r"(bz)); PUT(r);
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(bx), "r"(bz)); PUT(r);
    asm("mul.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(bx), "r"(bz)); PUT(r);
    asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(bx), "r"(bz)); PUT(r);
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(bx), "r"(bz)); PUT(r);
    asm("neg.bf16x2 %0, %1;" : "=r"(r) : "r"(bx)); PUT(r);
    asm("abs.bf16x2 %0, %1;" : "=r"(r) : "r"(bx)); PUT(r);
    uint16_t h, g;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    asm("{ add.f16 %0, %1, %1; }" : "=h"(g) : "h"(h));
    PUT(g);
    asm("fma.rn.f16 %0, %1, %2, %2;" : "=h"(g) : "h"(h), "h"(g));
    PUT(g);
    PUT(({ float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(g)); __float_as_uint(f); }));
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(y));
    PUT(h);
    PUT(({ uint32_t p; asm("{ .reg .pred p; setp.lt.f16 p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "h"(h), "h"(g)); p; }));
    uint16_t e4, e5;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e4) : "f"(x), "f"(y / 64));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(e5) : "f"(x * 100), "f"(y / 64));
    PUT(e4 | e5 << 16);
    PUT(({ uint32_t p; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(p) : "h"(e4)); p; }));
    PUT(({ uint32_t p; asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(p) : "h"(e5)); p; }));
    return n;
}

__device__ int conversions(uint32_t* out, int n, int lane, uint32_t a, float x, float y) {
    uint32_t r;
    float f;
    PUT(({ uint32_t p; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(p) : "f"(x)); p; }));
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(y)); PUT(r);
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rmi.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rpi.u32.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(lane & 1 ? 1e20f : -1e20f)); PUT(r);
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(x)); PUT(r);
    asm("cvt.rn.f32.s32 %0, %1;" : "=f"(f) : "r"(a)); PUT(__float_as_uint(f));
    asm("cvt.rn.f32.u32 %0, %1;" : "=f"(f) : "r"(a)); PUT(__float_as_uint(f));
    asm("cvt.rz.f32.u32 %0, %1;" : "=f"(f) : "r"(a)); PUT(__float_as_uint(f));
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("cvt.rzi.ftz.f32.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("cvt.sat.f32.f32 %0, %1;" : "=f"(f) : "f"(x)); PUT(__float_as_uint(f));
    asm("cvt.s32.s8 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("cvt.u32.u16 %0, %1;" : "=r"(r) : "r"(a & 0xffff)); PUT(r);
    asm("cvt.sat.s8.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    asm("cvt.sat.u16.s32 %0, %1;" : "=r"(r) : "r"(a)); PUT(r);
    uint64_t wide;
    asm("cvt.s64.s32 %0, %1;" : "=l"(wide) : "r"(a));
    PUT(static_cast<uint32_t>(wide >> 32));
    asm("cvt.u64.u32 %0, %1;" : "=l"(wide) : "r"(a));
    PUT(static_cast<uint32_t>(wide >> 32));
    asm("cvt.u32.u64 %0, %1;" : "=r"(a) : "l"(wide * 3));
    PUT(a);
    double d;
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(x));
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(d / 3));
    PUT(__float_as_uint(y));
    asm("cvt.rz.f32.f64 %0, %1;" : "=f"(y) : "d"(d / 3));
    PUT(__float_as_uint(y));
    return n;
}

__global__ void run(uint32_t* out, int* counts) {
    int lane = threadIdx.x, n = 0;
    uint32_t a = (lane + 1) * 2654435761u, b = (lane + 7) * 2246822519u ^ a >> 7, c = (lane + 3) * 3266489917u;
    float x = (static_cast<int>(a) >> 8) * 0x1p-15f, y = (static_cast<int>(b) >> 8) * 0x1p-20f, z = (static_cast<int>(c) >> 8) * 0x1p-22f;
    counts[0] = n = integers(out, n, lane, a, b, c);
    counts[1] = n = bits(out, n, lane, a, b, c);
    counts[2] = n = choices(out, n, lane, a, b, y);
    counts[3] = n = floats(out, n, lane, x, y, z);
    counts[4] = n = short_floats(out, n, lane, x, y, z);
    counts[5] = n = conversions(out, n, lane, a, x, y);
}

int main() {
    static uint32_t h[most * 32];
    int counts[6], *device_counts;
    uint32_t* out;
    cudaMalloc(&out, sizeof h), cudaMalloc(&device_counts, sizeof counts);
    run<<<1, 32>>>(out, device_counts);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(counts, device_counts, sizeof counts, cudaMemcpyDeviceToHost);
    const char* names[] = {"integers", "bits", "choices", "floats", "short floats", "conversions"};
    for (int group = 0, slot = 0; group < 6; ++group) {
        printf("%s: %d", names[group], counts[group]);
        for (int start = slot; slot < counts[group]; ++slot) {
            uint32_t sum = 0;
            for (int lane = 0; lane < 32; ++lane) sum = sum * 31 + h[slot * 32 + lane];
            printf("%s%08x/%08x", (slot - start) % 6 ? " " : "\n  ", h[slot * 32 + 5], sum);
        }
        printf("\n");
    }
}
