"""Inline PTX as the emulated device reads it: templates, statements, and the C++ that stands for them."""

import pytest

from grader_extensions.emulated_cuda import inline_ptx as ptx
from grader_extensions.emulated_cuda.emulation import Unsupported, translate


def only(template: str, *names: str) -> ptx.Instruction:
    (item,) = ptx.parse(template, names)
    assert isinstance(item, ptx.Instruction)
    return item


def body(source: str, path: str = "kernel.cu") -> str:
    """Return a kernel with these lines in it after the translation, from its first line on."""
    return translate("__device__ void f(unsigned r, unsigned a, float x, float* p) {\n" + source + "\n}\n", path).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%1", ptx.AsmParameter(1)),
        ("%[first]", ptx.AsmParameter(0)),
        ("p", ptx.Register("p")),
        ("%%laneid", ptx.Register("laneid")),
        ("%tid.x", ptx.Register("tid.x")),
        ("_", ptx.Sink()),
        ("!p", ptx.Negated(ptx.Register("p"))),
        ("d|p", ptx.Pair(ptx.Register("d"), ptx.Register("p"))),
        ("_|p", ptx.Pair(ptx.Sink(), ptx.Register("p"))),
        ("-1", ptx.Immediate("-1")),
        ("0x1fU", ptx.Immediate("31")),
        ("0f3F800000", ptx.Immediate("0x3F800000u", 32)),
        ("0d3FF0000000000000", ptx.Immediate("0x3FF0000000000000ull", 64)),
        ("1.5", ptx.Immediate("1.5", 64)),
        ("{%0, _, %1}", ptx.Vector((ptx.AsmParameter(0), ptx.Sink(), ptx.AsmParameter(1)))),
        ("[%1]", ptx.Address((ptx.AsmParameter(1),))),
        ("[%1 + 16]", ptx.Address((ptx.AsmParameter(1), ptx.Immediate("16")))),
        ("[%1+-4]", ptx.Address((ptx.AsmParameter(1), ptx.Immediate("-4")))),
        ("[%1-4]", ptx.Address((ptx.AsmParameter(1), ptx.Immediate("-4")))),
    ],
)
def test_every_form_of_operand_is_read(text: str, operand: ptx.Operand) -> None:
    assert only(f"op.b32 {text};", "first").operands == (operand,)


def test_a_block_declares_registers_and_guards_instructions() -> None:
    """Registers by name and by count, predicates, a label, and no semicolon at the end."""
    (block,) = ptx.parse("{\n .reg .pred p, q; .reg .b32 r<2>;\nAGAIN:\n @!p add.u32 %0, r0, r1; @q bra AGAIN }")
    assert isinstance(block, ptx.Block)
    first, second, label, add, branch = block.items
    assert isinstance(first, ptx.Declaration) and (first.type, first.names) == ("pred", ("p", "q"))
    assert isinstance(second, ptx.Declaration) and second.names == ("r0", "r1")
    assert label == ptx.Label("AGAIN")
    assert isinstance(add, ptx.Instruction) and (add.opcode, add.guard) == ("add.u32", ptx.Negated(ptx.Register("p")))
    assert isinstance(branch, ptx.Instruction) and branch.operands == (ptx.Register("AGAIN"),)


def test_a_modifier_of_a_state_space_belongs_to_the_opcode() -> None:
    """`::` is part of a word there, and an opcode may be in two strings."""
    assert only("cp.async.cg.shared::cta.global.L2::128B [%0], [%1], 16;").opcode == "cp.async.cg.shared::cta.global.L2::128B"
    assert only("mma.sync.aligned .m16n8k16 %0;").opcode == "mma.sync.aligned.m16n8k16"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("add.u32 %0 %1;", "';' is expected before '%1'"),
        ("{ add.u32 %0, %1;", "'}' is expected before 'the end'"),
        ("add.u32 %0, ?;", "'?' is not expected here"),
        ("add.u32 %0, %[none];", "no operand of the statement is named 'none'"),
        (".reg x;", "'x' is not the type of a register"),
        ("add.u32 %0, -x;", "a minus sign stands only before a number"),
    ],
)
def test_what_is_not_ptx_is_named(template: str, words: str) -> None:
    with pytest.raises(ptx.PtxSyntaxError) as caught:
        ptx.parse(template)
    assert words in caught.value.sentence


def test_a_statement_is_read_with_its_operands() -> None:
    """Concatenated strings, a raw one, names, comments, commas and colons inside expressions."""
    code = b'asm volatile("a;\\n\\t" /* x */ R"(b;)" : [out] "=r"(s[i, j]), "+f"(ok ? x : y) : "n"(sizeof(T)) : "memory");'
    read = ptx.read_statement(code, 0, 3)
    assert (read.template, read.end) == ("a;\n\tb;", len(code) - 1)
    assert [(operand.name, operand.constraint, operand.expression) for operand in (*read.outputs, *read.inputs)] == [
        ("out", "=r", "(s[i, j])"),
        ("", "+f", "(ok ? x : y)"),
        ("", "n", "(sizeof(T))"),
    ]


def test_a_macro_that_is_one_string_may_stand_in_a_template() -> None:
    """A second definition of it is not known before the preprocessor runs."""
    once = b'#define HINT ".L2::128B"\nasm("ld.global" HINT ".u32 %0, [%1];" : "=r"(a) : "l"(p));'
    assert ptx.read_statement(once, once.index(b"asm"), once.index(b"asm") + 3).template == "ld.global.L2::128B.u32 %0, [%1];"
    twice = b'#define HINT ""\n' + once
    with pytest.raises(ptx.AsmSyntaxError, match="holds 'HINT'"):
        ptx.read_statement(twice, twice.index(b"asm"), twice.index(b"asm") + 3)


def test_outputs_are_assigned_last_and_inputs_are_copied_first() -> None:
    """An output may be an input's variable."""
    text = body('  asm("add.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(1.0f));')
    order = [
        "auto& emu_o0 = (x)",
        "const uint32_t emu_1 = ::emu::ptx::emu_in<uint32_t>((x))",
        "emu_add<float, 0>",
        "emu_out(emu_o0, emu_0)",
    ]
    assert sorted(order, key=text.index) == order


def test_a_statement_keeps_its_lines() -> None:
    text = body('  asm("mov.u32 %0, 1;\\n"\n      "mov.u32 %0, 2;"\n      : "=r"(r));\n  int next;')
    assert text.split("\n").index("  int next;") == 4 + text.split("\n").index('#line 1 "kernel.cu"') + 1
    macro = translate('#define M(d) \\\n  asm("mov.u32 %0, 1;" \\\n      : "=r"(d))\nint next;\n', "kernel.cu")
    assert macro.split('#line 1 "kernel.cu"\n')[1].split("\n").index("int next;") == 3


def test_the_headers_are_included_only_where_there_is_ptx() -> None:
    """A kernel without any compiles as fast as before; the tensor cores' header comes with mma."""
    assert "emu/ptx/ptx.h" not in translate("__global__ void k() {}\n", "kernel.cu")
    assert "#include <emu/ptx/ptx.h>\n" in translate('__global__ void k() { asm("bar.sync 0;"); }\n', "kernel.cu")
    assert "emu/tensor" not in translate('__global__ void k() { asm("bar.sync 0;"); }\n', "kernel.cu")


def test_macros_of_a_plain_header_are_translated_too() -> None:
    """Public kernels have theirs in a .h; the host's own assembler stays."""
    macro = '#define COMMIT() asm volatile("cp.async.commit_group;\\n" ::)\n'
    assert "copy_queue().commit()" in translate(macro, "ptx.h")
    host = 'inline void relax() { asm volatile("pause" ::: "memory"); }\n'
    assert host in translate(host, "spin.h") and host in translate(host, "kernel.cu")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ('asm("wgmma.fence.sync.aligned;");', "no warpgroup instructions (wgmma)"),
        ('asm("ld.shared.weird.u32 %0, [%1];" : "=r"(r) : "r"(a));', "does not know '.weird'"),
        ('asm("add.u32 %0, %1, %2;" : "=r"(r) : "r"(a));', "has no operand %2"),
        ('asm("add.u32 %0, %1, q;" : "=r"(r) : "r"(a));', "the register 'q' is not declared"),
        ('asm("add.u32 %0, %1;" : "=r"(r) : "r"(a));', "'add.u32' has 2 operands, not 3"),
        ('asm("add.u64 %0, %1, %1;" : "=r"(r) : "r"(a));', "has 32 bits, which does not fit the type '.u64'"),
        ('asm("mov.u32 %1, %0;" : "=r"(r) : "r"(a));', "writes an operand that the asm statement lists as an input"),
        ('asm("mov.u32 %0, 1" #x ";" : "=r"(r));', "only from string literals"),
    ],
)
def test_what_is_not_covered_is_refused_where_it_stands(statement: str, words: str) -> None:
    """The refusal has the file and the line. Each instruction that a GPU has is in conformance/unsupported.toml."""
    with pytest.raises(Unsupported) as caught:
        body("\n  " + statement)
    assert words in caught.value.sentence
    assert (caught.value.path, caught.value.line) == ("kernel.cu", 3)


def test_the_line_is_that_of_the_instruction() -> None:
    with pytest.raises(Unsupported) as caught:
        body('  asm("mov.u32 %0, 1;\\n"\n      "wgmma.fence.sync.aligned;\\n"\n      : "=r"(r));')
    assert caught.value.line == 3
