"""The output of ptxas becomes figures for the report, and errors in the user's names and lines."""

import os

import pytest

from sandbox.compilers import ptxas

HOPPER = """
ptxas info    : 2 bytes gmem
ptxas info    : Compiling entry function '_ZN36_GLOBAL__N__99f9677f_4_k_cu_144a40b61gEPf' for 'sm_90a'
ptxas info    : Function properties for _ZN36_GLOBAL__N__99f9677f_4_k_cu_144a40b61gEPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Compile time = 0.533 ms
ptxas info    : Compiling entry function '_Z1kILi16EdEvPT0_' for 'sm_90a'
ptxas info    : Function properties for _Z1kILi16EdEvPT0_
    64 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 128 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 0.280 ms
ptxas info    : Function properties for _Z1fILi16EdET0_S0_
    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
kernel.cu(3): warning #177-D: variable "x" was declared but never referenced
"""
AMPERE = """
ptxas info    : Compiling entry function 'h' for 'sm_80'
ptxas info    : Function properties for h
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 44+16 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
"""
PTX = """
.version 9.0
\t.file\t1 "/proc/self/cwd/parts/tile.cuh"
\t.file\t2 "/proc/self/cwd/kernel.cu"
.visible .entry _Z4workPf(
\t.loc\t2 4 1
\tmov.u32 %r1, %tid.x;
\t.loc\t1 17 5, function_name $L__info_string0, inlined_at 2 5 3
\t// begin inline asm
}
mov.u99 x, y;
"""


def test_each_kernel_has_what_it_uses():
    """A function that it calls has properties too, which are not the kernel's; its stack is."""
    unnamed, template = ptxas.kernels(HOPPER)
    assert (unnamed.registers, unnamed.stack_bytes, unnamed.shared_bytes) == (32, 0, 0)
    assert (template.registers, template.shared_bytes, template.stack_bytes) == (255, 512, 128)
    assert (template.spill_store_bytes, template.spill_load_bytes) == (24, 28)


def test_instructions_in_float64_are_counted_where_they_stand():
    """Arithmetic and conversions of the entry's own body, each with its line; moves, loads, comparisons, comments and what a called
    function does are not."""
    ptx = """
.visible .entry h(
    .param .u64 h_param_0
)
{
    .reg .f64   %fd<4>;
    ld.global.f64 %fd3, [%rd2];
    cvt.f64.f32 \t%fd1, %f1;
    .loc 1 4 5
    @%p1 fma.rn.f64 \t%fd2, %fd1, %fd1, %fd2;
    mov.f64     %fd3, 0d0000000000000000;
    setp.lt.f64 %p2, %fd1, %fd2;
    .loc 2 900 1, function_name $L__info_string0, inlined_at 1 5 9
    cvt.rn.f32.f64 %f2, %fd2;
    // add.f64 %fd1, %fd1, %fd1;
    add.f32     %f1, %f1, %f1;
}
.func helper()
{
    add.f64     %fd1, %fd1, %fd1;
}
"""
    (use,) = ptxas.kernels(AMPERE, [ptx, ptx.replace("h(", "other(")])
    assert use.double_instruction_count == 3
    assert ptxas.float64_instructions([ptx]) == {"h": [(0, 0), (4, 0), (900, 5)]}


@pytest.mark.skipif(not os.access("/usr/bin/c++filt", os.X_OK), reason="c++filt is not here")
def test_names_are_as_they_were_written():
    """Not even the identifier of an unnamed namespace is left."""
    assert [use.name for use in ptxas.kernels(HOPPER)] == ["(anonymous namespace)::g(float*)", "void k<16, double>(double*)"]


def test_names_are_cut_and_steer_no_terminal():
    long, control = ptxas.demangled(["x" * 10_000, "a\x1b[2Jb\u202e"])
    assert long == "x" * ptxas.NAME_LIMIT_CHARS and control == "a[2Jb"


def test_there_are_at_most_so_many():
    """A template may make thousands."""
    assert len(ptxas.kernels(AMPERE * 1000)) == ptxas.KERNEL_LIMIT


@pytest.mark.parametrize(
    "log",
    [
        "",
        "ptxas info    : Used 8 registers",
        "ptxas info    : Compiling entry function 'h' for 'sm_80'\n",
        "ptxas info    : Compiling entry function 'h' for 'sm_80'\nptxas info    : Used " + "9" * 5000 + " registers\n",
        AMPERE.replace("8 registers", "no registers"),
    ],
)
def test_what_is_not_said_whole_is_left_out(log):
    """The text may be anything: a source can print into it."""
    assert ptxas.kernels(log) == ()


# -- what is wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (11, "parts/tile.cuh(17): error: Unknown modifier '.u99'\n    mov.u99 x, y;"),
        (7, "kernel.cu(4): error: Unknown modifier '.u99'\n    mov.u32 %r1, %tid.x;"),
        (2, "kernel.cu: error: Unknown modifier '.u99'\n    .version 9.0"),
        (999, "parts/tile.cuh(17): error: Unknown modifier '.u99'"),
    ],
)
def test_an_error_in_inline_assembly_names_the_user_s_line(line, message):
    """ptxas knows the line of a file that nobody has seen; whose text is quoted."""
    log = f"ptxas 0/kernel.ptx, line {line}; error   : Unknown modifier '.u99'\n"
    assert ptxas.complaint(log, {"0/kernel.ptx": ("kernel.cu", PTX)}) == f"{message}\n"
    assert ptxas.complaint(log, {}) == log


def test_a_name_that_steers_a_terminal_shifts_no_other():
    hostile = (HOPPER + AMPERE).replace("sm_80", "sm_90a").replace("_Z1kILi16EdEvPT0_", "a\x1b[2Jb\u202ec\x00")
    assert [(kernel.name, kernel.registers) for kernel in ptxas.kernels(hostile)][1] == ("a[2Jbc", 255)
    assert [kernel.registers for kernel in ptxas.kernels(hostile)] == [32, 255, 8]


def test_assembly_that_looks_like_line_information_is_no_harm():
    """The worst is a wrong place in the submitter's own log."""
    text = PTX.replace("\t// begin", '\t.loc 7 7 7\n.file 7 "../../etc/passwd"\n.loc 8 9 9\n\t// begin')
    log = "ptxas 0/kernel.ptx, line 14; error   : x\n"
    assert ptxas.complaint(log, {"0/kernel.ptx": ("kernel.cu", text)}).startswith("../../etc/passwd(7): error: x\n")
