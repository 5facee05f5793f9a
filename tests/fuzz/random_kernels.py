"""Random kernels without races: what a thread writes between two barriers, no other thread reads there."""

from __future__ import annotations

import random

HELPERS = """#include <cstdio>
#include <vector>
__device__ int helper(int x) { return x * 7 + 1; }
template <class T> __device__ void change(T& x, int y) { x = x * 5 + y; }
"""
BLOCKS = ("dim3(64)", "dim3(8, 8)", "dim3(7, 3)")
PLACE = "threadIdx.y * blockDim.x + threadIdx.x"


class RandomKernel:
    """Writes one."""

    def __init__(self, generator: random.Random) -> None:
        self._random, self._lines, self._count = generator, list[str](), 0
        self._numbers, self._constants, self._arrays = list[str](), list[str](), list[str]()

    def body(self) -> str:
        """The statements between its braces, for parameters `const int* a, int* out, int n`."""
        self._lines += ["__shared__ int tile[64];", f"tile[{PLACE}] = 1;"]
        self._lines += self._maybe(0.3, "a += blockIdx.x;") + self._maybe(0.2, "a += threadIdx.x % 2;")
        for _ in range(3):
            self._declare()
        self._lines += [*self._maybe(0.3, f"if ({self._value()} % 7 == 3) return;"), "__syncthreads();"]
        for number in range(self._random.randrange(1, 4)):
            self._part(number)
        kept = [*self._numbers, *self._constants, *(f"{name}[2]" for name in self._arrays)]
        self._lines.append(f"out[blockIdx.x * blockDim.x * blockDim.y + {PLACE}] = {' ^ '.join(kept)};")
        return "\n".join(self._lines)

    def _maybe(self, chance: float, line: str) -> list[str]:
        return [line] if self._random.random() < chance else []

    def _value(self, depth: int = 0) -> str:
        kind = self._random.randrange(8 if depth < 3 else 2)
        if kind < 2 or not self._numbers:
            return self._random.choice(
                [*self._numbers, *self._constants, "n", "3", "-2", "int(threadIdx.x)", "int(blockIdx.x)", "int(blockDim.x)"]
            )
        first, second = self._value(depth + 1), self._value(depth + 1)
        shapes = (f"a[unsigned({first}) % 256u]", f"({first} > {second} ? {first} : {second})", f"helper({first})")
        return shapes[kind - 2] if kind < 5 else f"({first} {self._random.choice('+-*^&|')} {second})"

    def _declare(self) -> None:
        self._count += 1
        name, value = f"v{self._count}", self._value()
        kind = self._random.randrange(6)
        if kind == 0:
            self._lines.append(f"int {name}[4] = {{{value}, {self._value()}}};")
            self._arrays.append(name)
        elif kind == 1:
            self._lines.append(f"const int {name} = blockIdx.x * 3 + threadIdx.x;")
            self._constants.append(name)
        elif kind == 2:
            self._lines.append(f"int {name} = {value}, {name}b = {self._random.randrange(9)};")
            self._numbers += [name, f"{name}b"]
        else:
            how = self._random.choice(["int {0} = {1};", "unsigned {0} = {1};", "long long {0} = {1};", "int {0}({1});"])
            self._lines.append(how.format(name, value))
            self._numbers.append(name)

    def _own(self, depth: int = 0) -> str:
        """A statement that changes a thread's own variables."""
        if not self._numbers:
            return ";"
        name, value = self._random.choice(self._numbers), self._value()
        kind = self._random.randrange(8 if depth < 2 else 4)
        if kind == 0:
            return f"{name} {self._random.choice(['=', '+=', '^=', '-='])} {value};"
        if kind == 1:
            return f"change({name}, {value});" if self._random.random() < 0.5 else f"{{ auto* p = &{name}; *p += {value}; }}"
        if kind == 2 and self._arrays:
            return f"{self._random.choice(self._arrays)}[unsigned({value}) % 4u] += {self._value()};"
        if kind < 4:
            return f"{self._random.choice(['++', '--'])}{name};"
        if kind < 6:
            return f"if ({value} > {self._value()}) {{ {self._own(depth + 1)} }} else {{ {self._own(depth + 1)} }}"
        way_out = self._random.choice(["break", "continue"])
        turns = f"for (int i{depth} = 0; i{depth} < {self._random.randrange(1, 5)}; ++i{depth})"
        return f"{turns} {{ {self._own(depth + 1)} if ({value} > 100) {way_out}; {self._own(depth + 1)} }}"

    def _phase(self) -> None:
        self._lines += [self._own() for _ in range(self._random.randrange(3))]
        self._lines += self._maybe(0.2, f"if ({self._value()} % 11 == 5) return;")
        self._lines.append(f"tile[{PLACE}] = {self._value()};")
        if self._random.random() < 0.3:
            self._declare()
        self._lines.append("__syncthreads();")
        self._lines += self._maybe(0.2, "a += 2;") + self._maybe(0.2, "n += blockIdx.x;")
        for name in self._numbers[:1]:
            self._lines.append(f"{name} += tile[unsigned({self._value()}) % (blockDim.x * blockDim.y)];")
        self._lines += [self._own() for _ in range(self._random.randrange(3))]
        self._lines.append("__syncthreads();")

    def _part(self, number: int) -> None:
        """Phases, in a loop or condition that all threads share."""
        before = list(self._numbers), list(self._constants), list(self._arrays)
        limits = ("5", "int(blockDim.x) / 4", "6 - int(blockIdx.x)")
        around = self._random.choice(
            [
                ("",),
                (f"for (int k{number} = 0; k{number} < {self._random.choice(limits)}; k{number} += {self._random.randrange(1, 3)})",),
                ("for (int s = 8; s > 0; s >>= 1)",),
                (f"if (blockIdx.x > {self._random.randrange(3)})", "else"),
            ]
        )
        for word in around:
            self._lines.append(f"{word} {{")
            if self._random.random() < 0.5:
                self._declare()
            self._phase()
            self._lines.append("}")
            self._numbers, self._constants, self._arrays = (list(one) for one in before)


def program(seed: int, count: int) -> str:
    """A program that runs so many kernels in blocks of several shapes, and prints a line for each."""
    generator = random.Random(seed)
    kernels = [f"__global__ void k{at}(const int* a, int* out, int n) {{\n{RandomKernel(generator).body()}\n}}\n" for at in range(count)]
    runs = [
        f'cudaMemset(out, 0, 16384); k{at}<<<3, {block}>>>(a, out, {at % 5 + 3}); print("k{at} {block}");'
        for at in range(count)
        for block in BLOCKS
    ]
    return (
        f"{HELPERS}{''.join(kernels)}int main() {{\n"
        "int *a, *out; std::vector<int> host(4096);\n"
        "for (int i = 0; i < 4096; ++i) host[i] = i * 2654435761u >> 20;\n"
        "cudaMalloc(&a, 16384); cudaMalloc(&out, 16384); cudaMemcpy(a, host.data(), 16384, cudaMemcpyHostToDevice);\n"
        "auto print = [&](const char* name) {\n"
        'if (cudaDeviceSynchronize() != cudaSuccess) printf("failed ");\n'
        "cudaMemcpy(host.data(), out, 16384, cudaMemcpyDeviceToHost);\n"
        "unsigned long long sum = 0; for (int one : host) sum = sum * 31 + unsigned(one);\n"
        'printf("%s %016llx\\n", name, sum); };\n' + "\n".join(runs) + "\n}\n"
    )
