"""Sources that are bombs for a compiler (58 of README.md), given to the real builder in a box.

Each ends at one limit of the box; the control is the same source where that limit is far away.
"""

from grader.grading.attempt import module_argv
from grader.grading.pipeline import COMPILER_REJECTED
from grader.isolation.directories import box_output
from grader.isolation.pickup import pick_up
from sandbox.protocol.wire import BoxCause
from tests.harness.build_jobs import write_job
from tests.requirements import skip_without_extensions

ENTRY = 'extern "C" void solve(const float* a, float* b, long n, cudaStream_t stream) {}\n'
LIMITS = {
    "wall_s": 120.0,
    "cpu_s": 60.0,
    "memory_bytes": 512 << 20,
    "process_count": 64,
    "output_bytes": 16 << 20,
    "file_bytes": 64 << 20,
    "tmp_bytes": 128 << 20,
    "open_file_count": 256,
}
TREE = (
    """
template<int N, int M> struct T { T<N - 1, 2 * M> a; T<N - 1, 2 * M + 1> b; };
template<int M> struct T<0, M> {};
T<22, 0> x;
"""
    + ENTRY
)
CHATTER = '#define A0 _Pragma("GCC warning \\"chatter\\"")\n'
CHATTER += "".join(f"#define A{n + 1} {f'A{n} ' * 8}\n" for n in range(4)) + f"A4\n{ENTRY}"


async def built(cage, sources, **limits):
    """Build as the pipeline does; return how the box ended and its artifact."""
    src = cage.place / "src"
    cage.place.chmod(0o711)
    write_job(src, sources)
    argv = module_argv("sandbox.builder.build", "{src}", "{out}")
    with box_output(cage.settings, limit_bytes=64 << 20) as out:
        ended = await cage.run("", argv=argv, src_dir=src, out_dir=out, limits={**LIMITS, **limits})
        skip_without_extensions(ended.output.decode(errors="replace"))
        return ended, pick_up(out, "artifact", limit_bytes=64 << 20)


async def test_58_templates_without_number_meet_the_wall_or_the_memory_limit(cage):
    """Each limit is the other's control: with the one far away the same source goes on to the other."""
    ended, _ = await built(cage, {"kernel.cu": TREE}, wall_s=1.5)
    assert ended.cause is BoxCause.WALL_LIMIT
    ended, artifact = await built(cage, {"kernel.cu": TREE}, memory_bytes=128 << 20)
    assert ended.cause is BoxCause.MEMORY_LIMIT
    assert not isinstance(artifact, bytes)


async def test_58_a_device_without_end_as_a_header_meets_the_memory_limit(cage):
    """The control: one that has an end."""
    ended, _ = await built(cage, {"kernel.cu": f'#include "/dev/zero"\n{ENTRY}'}, memory_bytes=160 << 20)
    assert ended.cause is BoxCause.MEMORY_LIMIT
    ended, artifact = await built(cage, {"kernel.cu": f'#include "/dev/null"\n{ENTRY}'}, memory_bytes=160 << 20)
    assert (ended.cause, ended.exit_code, isinstance(artifact, bytes)) == (BoxCause.EXITED, 0, True), ended


async def test_58_a_giant_of_an_array_meets_the_file_limit(cage):
    source = {"kernel.cu": f"char giant[20 << 20] = {{1}};\n{ENTRY}"}
    ended, artifact = await built(cage, source, file_bytes=8 << 20)
    assert (ended.cause, ended.exit_code) == (BoxCause.EXITED, COMPILER_REJECTED)
    assert b"File size limit exceeded" in ended.output
    assert not isinstance(artifact, bytes)
    ended, artifact = await built(cage, source)
    assert (ended.cause, ended.exit_code, isinstance(artifact, bytes)) == (BoxCause.EXITED, 0, True), ended


async def test_58_a_flood_of_warnings_meets_the_output_limit(cage):
    ended, _ = await built(cage, {"kernel.cu": CHATTER}, output_bytes=128 << 10)
    assert ended.cause is BoxCause.OUTPUT_LIMIT
    ended, artifact = await built(cage, {"kernel.cu": CHATTER})
    assert (ended.cause, ended.exit_code, isinstance(artifact, bytes)) == (BoxCause.EXITED, 0, True), ended


async def test_58_what_never_ends_downwards_ends_at_the_compilers_own_depth(cage):
    """Not ours to take away: the control is the same without it, above."""
    down = "template<int N> struct T { static const int v = T<N + 1>::v; };\nint x = T<0>::v;\n"
    ended, artifact = await built(cage, {"kernel.cu": down + ENTRY, "other.cu": "#include __FILE__\n"})
    assert (ended.cause, ended.exit_code) == (BoxCause.EXITED, COMPILER_REJECTED)
    assert b"instantiation depth" in ended.output and b"nested depth" in ended.output
    assert not isinstance(artifact, bytes)


async def test_58_the_name_of_a_source_is_no_word_for_the_compiler(cage):
    """A plugin, a wrapper and a file of words. The control: given to the compiler as they are they are just that."""
    words = "-fplugin=evil.cu"
    names = {words: ENTRY, "@words.cu": "int first;\n", "-wrapper evil.cu": "int second;\n", "$(touch evil).cu": "int third;\n"}
    ended, artifact = await built(cage, names)
    assert (ended.cause, ended.exit_code, isinstance(artifact, bytes)) == (BoxCause.EXITED, 0, True), ended
    command = f"cd /grader/src/files && g++ -c -x c++ '{words}' /dev/null"
    plain = await cage.run("", argv=("/bin/sh", "-c", command), src_dir=cage.place / "src", limits=LIMITS)
    assert b"cannot load plugin" in plain.output
