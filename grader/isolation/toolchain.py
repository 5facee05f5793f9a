"""Selects the host paths that a box sees, read-only: the toolchain, the Python environment, and the box's side of `sandbox`."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from grader.isolation import LIB, IsolationBroken
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.entry_points import package_names
from sandbox.protocol.languages import languages
from sandbox.protocol.toolkit import toolkit_packages

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
# The trusted half of `sandbox`: it knows references and expected values, and has no business in a box.
TRUSTED_ONLY = frozenset({"judge", "profiles", "__pycache__"})
TESTS = "tests"  # directories of this name in packages with box modules are not for boxes
OWN_ETC = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
}
# Of /proc, what programs parse and what counts for the whole host: files of our own, the same for every box at any time.
OWN_PROC = ("cpuinfo", "loadavg", "meminfo", "stat", "uptime")


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMount:
    """A host path and where the box sees it. shared: a part of the host's toolchain, which all boxes see; writable: else read-only."""

    source: Path
    target: str
    shared: bool = False
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Contents of the root of a box.

    hidden: directories inside bound ones that are covered by an empty one; hidden_sources: where these lie on the host.
    library: those of the binds that show the box's side of `sandbox`. proc: files of our own for the box's /proc.
    """

    python: str
    path: str
    binds: tuple[BindMount, ...]
    hidden: tuple[str, ...]
    hidden_sources: tuple[str, ...] = ()
    library: tuple[BindMount, ...] = ()
    proc: tuple[BindMount, ...] = ()


def places_of(name: str) -> tuple[Path, ...]:
    """Return the directories of a package, or the file of a module, as it lies on this host; none where it is not installed."""
    spec = importlib.util.find_spec(name)
    return () if spec is None else tuple(map(Path, spec.submodule_search_locations or filter(None, (spec.origin,))))


def package_directory(name: str) -> Path:
    """Return where a package of this project lies."""
    if places := places_of(name):
        return places[0]
    raise IsolationBroken(f"the package {name!r} cannot be found; install the project into this Python environment")


def profile(name: str) -> Path:
    """Return a file of `sandbox/profiles`."""
    return package_directory("sandbox") / "profiles" / name


def library_binds() -> tuple[BindMount, ...]:
    """Return the parts of `sandbox` that a box may see, each by itself, at {lib}."""
    package = package_directory("sandbox")
    entries = sorted(entry for entry in package.iterdir() if entry.name not in TRUSTED_ONLY and entry.suffix != ".pyc")
    sandbox = (BindMount(source=entry, target=f"{LIB}/sandbox/{entry.name}") for entry in entries)
    languages = plug_ins()
    modules = _box_module_binds({path.stem for path in languages})
    return (*sandbox, *(BindMount(source=path, target=f"{LIB}/{path.name}") for path in languages), *modules)


def _box_module_binds(bound: Collection[str]) -> Iterator[BindMount]:
    """Return the packages of the box modules, and the `__init__.py` of each package around them. bound: packages that are bound already."""
    names = sorted({module.rpartition(".")[0] for module in box_modules().values()})
    names = [name for name in names if name.partition(".")[0] not in bound]
    packages = [name for name in names if not any(name.startswith(f"{outer}.") for outer in names)]
    ancestors = {name.rsplit(".", count)[0] for name in packages for count in range(1, name.count(".") + 1)}
    for name in packages:
        yield BindMount(source=package_directory(name), target=f"{LIB}/{name.replace('.', '/')}")
    for name in sorted(ancestors):
        yield BindMount(source=package_directory(name) / "__init__.py", target=f"{LIB}/{name.replace('.', '/')}/__init__.py")


@lru_cache
def test_directories(package: Path) -> tuple[Path, ...]:
    """Return the directories of tests in a package."""
    return tuple(sorted(path for path in package.rglob(TESTS) if path.is_dir()))


def plug_ins() -> tuple[Path, ...]:
    """Return the packages and modules that bring languages, as they lie on this host, but for those of box modules."""
    packages = dict[Path, None]()
    for language in languages().values():
        name = language.module.partition(".")[0]
        if name == "sandbox" or language.module in box_modules().values():
            continue
        places = places_of(name)
        if not places:
            raise IsolationBroken(
                f"the package {name!r} of the language {language.name!r} is missing; install it, or remove its entry point"
            )
        packages[places[0]] = None
    return tuple(packages)


def host_toolchain(etc_directory: Path, hidden_paths: tuple[Path, ...] = (), memory_toolchain_dir: Path | None = None) -> Toolchain:
    """Return the host's own compilers, libraries and Python environment, to be seen at the same paths inside.

    memory_toolchain_dir: where their copy in memory is, which is bound in their place (`memory_toolchain.py`).
    """
    roots = [Path(path) for path in SYSTEM if Path(path).exists()]
    prefixes = [Path(prefix) for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)]
    cuda = cuda_home()
    prefixes += [*([cuda] if cuda else []), *toolkit_packages("include")]
    roots += [path for prefix in prefixes for path in (prefix, prefix.resolve())]
    binds = _without_nested([BindMount(source=path.resolve(), target=str(path), shared=True) for path in roots])
    etc = tuple(BindMount(source=etc_directory / name, target=f"/etc/{name}") for name in OWN_ETC)
    # Packages that add to grader, too: a box sees of them what is bound.
    ours = [
        package_directory("sandbox"),
        package_directory("grader"),
        *(path for name in sorted(package_names()) for path in places_of(name)),
    ]
    hidden = [path.resolve() for path in (*ours, *hidden_paths)]
    library = library_binds()
    tests = [(bind, path.relative_to(bind.source)) for bind in library if bind.source.is_dir() for path in test_directories(bind.source)]
    return Toolchain(
        python=sys.executable,
        path=search_path(),
        binds=(*_from_memory(binds, memory_toolchain_dir), *etc, *_from_memory(library, memory_toolchain_dir)),
        hidden=(
            *(
                str(Path(bind.target) / path.relative_to(bind.source))
                for path in hidden
                for bind in binds
                if path.is_relative_to(bind.source) and path.is_dir()
            ),
            *(str(Path(bind.target) / path) for bind, path in tests),
        ),
        hidden_sources=tuple(map(str, hidden)),
        library=library,
        proc=tuple(BindMount(source=etc_directory / name, target=f"/proc/{name}") for name in OWN_PROC),
    )


def mirrored(memory_toolchain_dir: Path, path: Path) -> Path:
    """Return where the copy of a host path lies in a copy of the toolchain."""
    return memory_toolchain_dir / str(path).lstrip("/")


def in_memory(memory_toolchain_dir: Path | None, bind: BindMount) -> BindMount:
    """Return the bind of a file's copy, where there is one; else the bind itself."""
    copied = None if memory_toolchain_dir is None else mirrored(memory_toolchain_dir, bind.source)
    return bind if copied is None or not copied.is_file() else replace(bind, source=copied)


def _from_memory(binds: tuple[BindMount, ...], memory_toolchain_dir: Path | None) -> tuple[BindMount, ...]:
    if memory_toolchain_dir is None:
        return binds
    copies = tuple(replace(bind, source=mirrored(memory_toolchain_dir, bind.source)) for bind in binds)
    if missing := [str(bind.source) for bind in copies if not bind.source.exists()]:
        raise IsolationBroken(f"the toolchain's copy in memory lacks {missing[0]}; restart the server, which makes a new one")
    return copies


def image_toolchain() -> Toolchain:
    """Return what a box made from an image has: all of it in the image, `sandbox` too, so the server may be in a container itself."""
    return Toolchain(
        python="python3",
        path="/opt/grader/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        binds=(),
        hidden=(),
    )


def write_own_etc(directory: Path) -> None:
    """Write the passwd and group that boxes see, which name no host user, and the files of their /proc."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    for name, text in (OWN_ETC | own_proc(Path("/proc/cpuinfo").read_text())).items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            partial = directory / f".{name}.{secrets.token_hex(8)}"  # several boxes may start at once
            partial.write_text(text)
            partial.chmod(0o644)
            partial.replace(path)


def own_proc(cpuinfo: str) -> dict[str, str]:
    """Return the texts of OWN_PROC, as programs parse them: this host's cores and memory, and nothing that happens on it."""
    memory_kb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    sizes = {"MemTotal": memory_kb, "MemFree": memory_kb, "MemAvailable": memory_kb} | dict.fromkeys(
        ("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem", "Slab", "SReclaimable"), 0
    )
    cores = [f"cpu{number}" for number in range(os.cpu_count() or 1)]
    counters = ("intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked")
    return {
        "cpuinfo": re.sub(r"(?m)^(cpu MHz\s*:).*", r"\1 1000.000", cpuinfo),
        "loadavg": "0.00 0.00 0.00 1/1 1\n",
        "meminfo": "".join(f"{name + ':':<16}{size:>8} kB\n" for name, size in sizes.items()),
        "stat": "".join(f"{core} 0 0 0 0 0 0 0 0 0 0\n" for core in ("cpu ", *cores)) + "".join(f"{name} 0\n" for name in counters),
        "uptime": "1.00 1.00\n",
    }


def search_path() -> str:
    """Return the PATH of a box that has the host's toolchain."""
    cuda = cuda_home()
    directories = [Path(sys.prefix) / "bin", *([cuda / "bin"] if cuda else []), *map(Path, ("/usr/local/bin", "/usr/bin", "/bin"))]
    return ":".join(dict.fromkeys(map(str, directories)))


def cuda_home() -> Path | None:
    """Return where the CUDA toolkit of this host lies, if there is one."""
    for candidate in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if candidate and (Path(candidate) / "bin" / "nvcc").exists():
            return Path(candidate)
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    toolkit = Path(nvcc).resolve().parent.parent
    return toolkit if (toolkit / "nvvm").exists() else None


def _without_nested(binds: list[BindMount]) -> tuple[BindMount, ...]:

    def shows(outer: BindMount, inner: BindMount) -> bool:
        if inner.target != outer.target and not inner.target.startswith(outer.target + "/"):
            return False
        return (outer.source / Path(inner.target).relative_to(outer.target)).resolve() == inner.source

    outermost: list[BindMount] = []
    for bind in sorted(binds, key=lambda bind: bind.target):
        if not any(shows(outer, bind) for outer in outermost):
            outermost.append(bind)
    return tuple(outermost)
