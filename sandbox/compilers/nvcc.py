"""nvcc, taken apart: what it would run one after the other runs side by side.

nvcc says with --dryrun what it would run. Host pass (cudafe++) and device pass (cicc, ptxas) need nothing of each other but an identifier
of the file, which is made here instead. Where its answer has a shape that is not known, nvcc itself compiles.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.compilers import host_compiler
from sandbox.compilers.cuda_tokens import launches_in_device_code
from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import OBJECT, STANDS_IN, Compiler, CompilerStep, object_name
from sandbox.protocol import wire
from sandbox.protocol.languages import CUDA_SUFFIXES
from sandbox.protocol.toolkit import toolkit_packages

ARCHITECTURE = "sm_90"
STATIC_RUNTIME = "-lcudart_static"
CUDA_ERROR = Path(__file__).resolve().parent.parent / "native" / "cuda_error.cpp"
SPECIFIC_FROM = 90
DRYRUN_S = 30.0
HOST_FLAGS = ("-O3",)
LANGUAGE_FLAGS = ("--expt-relaxed-constexpr", "--extended-lambda")  # what the emulated device takes without being asked
# The passes of nvcc itself end at the hundredth error.
HOST_COMPILER_FLAGS = ("-Xcompiler", f"-fPIC,{host_compiler.ERROR_LIMIT}")
# -lineinfo: profilers show the user's lines; no other code is made. -v: registers, shared memory and spills of each kernel, for the log.
FLAGS = (*HOST_FLAGS, *LANGUAGE_FLAGS, "-lineinfo", *HOST_COMPILER_FLAGS, "-Xptxas", "-v", "--split-compile", "0")
# What stands in nvcc's answer for the directory of a source's files, and for the source.
FOLDER, SOURCE = "__folder__", "__source__.cu"
STEM = Path(SOURCE).stem
MODULE_ID = f"{STEM}.module_id"
# A kernel that launches kernels calls the device's runtime, which only a device linker adds.
RELOCATABLE = "-rdc=true"
DEVICE_RUNTIME = "-lcudadevrt"
DEVICE_LINKED = "device_link.o"
LIBRARIES = ("libcuda", "libcublas", "libcublasLt", "libcurand", "libcufft", "libcusparse", "libnvrtc")
DRIVER_PLACES = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/local/nvidia/lib64"))
STUBS = "stubs"  # the directory of libraries that only name functions
MAKES_MODULE_ID = "--gen_module_id_file"
TOOL_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "NVVMIR_LIBRARY_DIR")
_FILE = re.compile(rf"{FOLDER}/([\w.+-]+)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)")
_ARCHITECTURE = re.compile(r"sm_(\d+)([a-z]?)")


class NoCompiler(Exception):
    """The build box has no nvcc."""

    def __init__(self) -> None:
        super().__init__("nvcc is not on the PATH of the build box; install the CUDA toolkit, or set CUDA_HOME where the server runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dryrun:
    """Commands that nvcc would run for one source, and their variables."""

    variables: Mapping[str, str]
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel(Compiler):
    """Compiles by the commands of a dry run. device_link: the command that links device code, where that is done."""

    files: Path
    dryrun: Dryrun
    device_link: tuple[str, ...] = ()

    def compile(self, path: str, number: int, headers: Headers, place: Path) -> list[CompilerStep]:
        """Plan the passes of a .cu file, or g++ for any other."""
        includes = ["-I.", *host_compiler.include_flags(headers, device=list(map(str, toolkit_packages("include"))))]
        if not path.endswith(CUDA_SUFFIXES):
            toolkit = [*self._words("INCLUDES"), *self._words("SYSTEM_INCLUDES")]
            words = [*HOST_FLAGS, f"-std=c++{headers.standard}", *includes, *toolkit]
            return [host_compiler.compile_step(Path(path), path, number, words, self.files, place)]
        folder = place / str(number)
        folder.mkdir()
        (folder / _filled(MODULE_ID, path, folder)).write_text(module_id(path, (self.files / path).read_bytes()), "utf-8")
        variables = self.dryrun.variables
        environment = (*((name, variables[name]) for name in TOOL_VARIABLES if name in variables), STANDS_IN)
        produced = [f"{number}/{_filled(MODULE_ID, path, folder)}"]
        steps = []
        for command in self.dryrun.commands:
            names = dict.fromkeys(name for word in command for name in _FILE.findall(word))
            named = [f"{number}/{_filled(name, path, folder)}" for name in names]
            program, *words = (_filled(word, path, folder) for word in command)
            step = CompilerStep(
                command=(program, *(includes if "-E" in words else ()), *words),
                # ptxas notes the time of every source that it finds; where it stands it finds none.
                directory=folder if Path(program).name == "ptxas" else self.files,
                # The last one reads what others have written without naming all of it.
                inputs=tuple(produced if command is self.dryrun.commands[-1] else [name for name in named if name in produced]),
                outputs=tuple(name for name in named if name not in produced),
                source=path,
                environment=environment,
            )
            steps.append(step)
            produced += step.outputs
        return steps

    def link(self, objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
        """Plan g++ with the toolkit's libraries. A runtime inside the artifact needs CUDA_ERROR, which the runner asks for its errors."""
        linked, objects, runtime = _device_link(self.device_link, objects, place)
        searched = self._words("LIBRARIES")
        libraries = [*searched, *runtime, *libraries, *libraries_in([Path(word.removeprefix("-L")) for word in searched])]
        if STATIC_RUNTIME not in libraries:
            return [*linked, *host_compiler.link_steps(objects, libraries, output, place)]
        includes = [*self._words("INCLUDES"), *self._words("SYSTEM_INCLUDES")]
        errors = host_compiler.compile_step(CUDA_ERROR, CUDA_ERROR.name, len(objects), ["-O1", *includes], CUDA_ERROR.parent, place)
        return [*linked, errors, *host_compiler.link_steps([*objects, *errors.outputs], libraries, output, place)]

    def _words(self, variable: str) -> list[str]:
        return shlex.split(self.dryrun.variables.get(variable, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Compiler):
    """Compiles by nvcc itself, one pass after the other."""

    program: str
    flags: tuple[str, ...]
    files: Path
    device_link: tuple[str, ...] = ()

    def compile(self, path: str, number: int, headers: Headers, place: Path) -> list[CompilerStep]:
        """Plan nvcc."""
        includes = ["-I.", *host_compiler.include_flags(headers, device=list(map(str, toolkit_packages("include"))))]
        kind = ("-x", "cu") if path.endswith(CUDA_SUFFIXES) else ()
        command = (self.program, *self.flags, *includes, *kind, "-c", path, "-o", str(place / object_name(number)))
        return [CompilerStep(command=command, directory=self.files, outputs=(object_name(number),), source=path, environment=(STANDS_IN,))]

    def link(self, objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
        """Plan nvcc, without the runtime that it adds by itself."""
        linked, objects, runtime = _device_link(self.device_link, objects, place)
        directory = Path(self.program).resolve().parents[1] / "lib64"
        libraries = [*runtime, *libraries, *libraries_in([directory, directory / STUBS])]
        command = (self.program, "-shared", "--cudart", "none", *objects, "-o", output, *libraries, "-Xcompiler", "-pthread")
        return [*linked, CompilerStep(command=command, directory=place, inputs=tuple(objects), outputs=(output,))]


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> Compiler:
    """Ask nvcc what it would run; the same for every source but for the names. chosen: `-std`, and the submission's flags."""
    program = shutil.which("nvcc")
    if program is None:
        raise NoCompiler
    number = target(job.architecture or ARCHITECTURE).removeprefix("sm_")
    architecture = ("-gencode", f"arch=compute_{number},code=sm_{number}")
    nested = any(launches_in_device_code(text.encode(errors="surrogateescape")) for text in sources.values())
    device_link = (program, "-dlink", *architecture, "-Xcompiler", "-fPIC") if nested else ()
    flags = (*FLAGS, *chosen, *([RELOCATABLE] if nested else []), *architecture)
    (place / FOLDER).mkdir()
    answer = subprocess.run(
        [program, *flags, "--dryrun", "--keep", "--keep-dir", FOLDER, "-c", SOURCE, "-o", f"{FOLDER}/{OBJECT}"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=DRYRUN_S,
    )
    dryrun = parse(answer.stderr) if answer.returncode == 0 else None
    if dryrun is None:
        return Plain(program=program, flags=flags, files=files, device_link=device_link)
    return Parallel(files=files, dryrun=dryrun, device_link=device_link)


def target(architecture: str) -> str:
    """Return the architecture to build for a device that says it is of this one.

    From Hopper on the one with an "a": all of the plain one, and what exists on this very device only (wgmma and setmaxnreg on sm_90a,
    tcgen05 on sm_100a). Such code runs on no other device, which costs nothing: an artifact is run on the lane that it was built for. The
    judge says what its device is; what a compiler makes best for that is known here. One that names a letter means it.
    """
    match = _ARCHITECTURE.fullmatch(architecture)
    if match is None:
        raise ValueError(f"architecture {architecture!r} is none; write it as nvcc does, such as 'sm_90'")
    return f"{architecture}a" if int(match[1]) >= SPECIFIC_FROM and not match[2] else architecture


def parse(text: str) -> Dryrun | None:
    """Read nvcc's answer; None where it is not as expected."""
    variables: dict[str, str] = {}
    commands: list[tuple[str, ...]] = []
    try:
        for line in text.splitlines():
            if not line.startswith("#$ "):
                continue
            assignment = _ASSIGNMENT.fullmatch(line[3:])
            if assignment is not None:
                variables[assignment[1]] = assignment[2]
            else:
                commands.append(tuple(_VARIABLE.sub(lambda match: variables[match[1] or match[2]], word) for word in shlex.split(line[3:])))
    except (ValueError, KeyError):  # an open quote; a variable that was not set
        return None
    commands = [command for command in commands if command and command[0] != "rm"]
    makers = [command for command in commands if MAKES_MODULE_ID in command]
    if len(makers) != 1 or Path(makers[0][0]).name != "cudafe++" or f"{FOLDER}/{OBJECT}" not in commands[-1]:
        return None
    if not all(_FILE.search(word) for command in commands for word in command if FOLDER in word):
        return None  # a file in there whose name does not follow
    return Dryrun(
        variables=variables, commands=tuple(tuple(word for word in command_words if word != MAKES_MODULE_ID) for command_words in commands)
    )


def libraries_in(directories: Sequence[Path]) -> list[str]:
    """Return the words that link those of LIBRARIES that lie in these directories, in a package or beside the driver. Only what is called
    becomes needed: a build box has no driver, and imports extensions. An artifact says where the toolkit's libraries lie."""
    places = sorted([*directories, *toolkit_packages("lib"), *DRIVER_PLACES], key=lambda place: place.name == STUBS)
    there = {path.name.partition(".")[0]: path for place in reversed(places) for path in sorted(place.glob("lib*.so*"), reverse=True)}
    paths = [there[name] for name in LIBRARIES if name in there]
    named = [word for path in paths for word in (f"-L{path.parent}", f"-l:{path.name}")]
    holders = dict.fromkeys(path.parent.resolve() for path in paths if path.parent.name != STUBS and path.parent not in DRIVER_PLACES)
    words = ["--push-state", "--as-needed", *named, "--pop-state", "--disable-new-dtags", *(f"-rpath={holder}" for holder in holders)]
    return [part for word in words if paths for part in ("-Xlinker", word)]


def module_id(path: str, content: bytes) -> str:
    """An identifier in the shape of nvcc's own, of path and content, so that no two sources of a job share it and every build agrees."""
    digest = hashlib.sha256(path.encode() + b"\0" + content).hexdigest()
    name = _letters(Path(path).name)
    return f"_{digest[:8]}_{len(name)}_{name}_{digest[8:16]}"


def _device_link(words: Sequence[str], objects: Sequence[str], place: Path) -> tuple[list[CompilerStep], Sequence[str], list[str]]:
    """The step that links device code, all objects, and the device's runtime; only the objects where `words` name no command."""
    if not words:
        return [], objects, []
    command = (*words, *objects, "-o", DEVICE_LINKED, DEVICE_RUNTIME)
    step = CompilerStep(command=command, directory=place, inputs=tuple(objects), outputs=(DEVICE_LINKED,))
    return [step], [*objects, DEVICE_LINKED], [DEVICE_RUNTIME]


def _filled(word: str, path: str, folder: Path) -> str:
    """The word for this source. Messages and the artifact name it as it was submitted, wherever it lies."""
    if word == SOURCE or word.endswith(f"/{SOURCE}"):
        return path
    return word.replace(f"{FOLDER}/", f"{folder}/").replace(STEM, _letters(Path(path).stem))


def _letters(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)
