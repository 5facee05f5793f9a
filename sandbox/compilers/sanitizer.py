"""How g++ compiles for the emulated device's sanitizer (`native/emulated/emu/sanitizer`).

The compiler's own instrumentation calls hooks that the device's headers define; its run-time libraries are not linked. Nothing else is
asked of the linker, and precompiled headers cannot be used: they were compiled without these flags.
"""

WITHOUT_LOCAL_VARIABLES = "-DEMU_WITHOUT_LOCAL_VARIABLES"


def flags() -> list[str]:
    """Flags for every source, to follow the emulated device's own."""
    return [
        "-DEMU_SANITIZE",
        # Accesses stay as the kernel wrote them: at -O2 g++ forwards what was stored to a later load.
        *("-O1", "-fno-tree-sra", "-g1"),
        # One access for each that is written: not four in a vector, nor one of a loop before it, where the loop may not come to it.
        *("-fno-tree-vectorize", "-fno-peel-loops", "-fno-tree-loop-im"),
        # Arithmetic keeps its own line, and does not become a part of what uses its result.
        "-fno-tree-ter",
        # A helper inlined into the kernel leaves the kernel's own line next to it; templates are not declared inline.
        "-finline-small-functions",
        *("-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0", "--param", "tsan-distinguish-volatile=1"),
        "-fsanitize=alignment,bounds",
        "-fsanitize-coverage=trace-pc",
        "-Wno-tsan",
    ]
