"""Jobs and facts: what goes over the pipe between the server and a judge.  Standard library only.

The one module that both worlds import. A job goes down as one JSON line, facts come up as JSON lines. Facts say what was seen;
what it means is decided in `grader/verdict/fold.py`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cache
from typing import Annotated, Any

from sandbox.protocol.modes import Mode as Mode

LINE_LIMIT_BYTES = 8 * 1024 * 1024
KEPT_PROBLEM_COUNT = 32  # whose references and their compiled forms a judge keeps
LOG_LIMIT_BYTES = 64 * 1024
WAIT_FACTOR = 8.0  # a judge waits for a runner at most so many times its limit, where the runner has to wait for a core

# Ranges of numbers, checked by `decode`. Without one of these types an int has 64 bits, as in the
# API, and a float is finite.
INT64 = (-(2**63), 2**63 - 1)
Count = Annotated[int, (0, 2**63 - 1)]
SmallCount = Annotated[int, (0, 10**9)]  # the API has it in 32 bits, and may add to it
Int32 = Annotated[int, (-(2**31), 2**31 - 1)]
AnyFloat = Annotated[float, None]  # may be infinite or NaN


class Disclosure(Enum):
    """Workloads of which submitters see a field of a fact, in its annotation: `Annotated[Count, NOT_HIDDEN]`. Others are never shown.

    `grader/rules/disclosure.py` decides what each of these means.
    """

    ALWAYS = auto()
    NAME = auto()  # of a workload: hidden ones go by numbers
    NAME_NOT_SECRET = auto()
    NOT_SECRET = auto()  # not of the secret workloads of a competition
    NOT_HIDDEN = auto()  # of public workloads only
    FIRST = auto()  # of public workloads, until the kernel may know a hidden size: for what it can choose
    OUTPUT = auto()
    MOMENT = auto()


ALWAYS, NAME, NAME_NOT_SECRET, NOT_SECRET, NOT_HIDDEN, FIRST, OUTPUT, MOMENT = Disclosure


class WireError(ValueError):
    """A line that is no job and no fact."""


class Stage(StrEnum):
    """Stage of a grading, for people who wait."""

    SCREENING = "screening"  # on the emulated device, before a GPU
    BUILDING = "building"
    PREPARING = "preparing"  # until boxes may meet a competition's secrets
    WAITING = "waiting"  # for a device
    LOADING = "loading"
    BASELINE = "baseline"  # it is timed while there is no subject
    VERIFYING = "verifying"
    MEASURING = "measuring"
    PROFILING = "profiling"


class Step(StrEnum):
    """Step of a grading that takes time, in the usual order."""

    QUEUED = "queued"
    SCREEN = "screen"  # all of the stage on the emulated device, before a GPU
    DEVICE = "device"  # waiting for one, or for its judge to start
    BUILDER = "builder"  # waiting for a core to build on
    BOX = "box"  # waiting for a box to start
    COMPILE = "compile"
    ARTIFACT = "artifact"  # looked up, taken out of the box, kept
    LOAD = "load"  # the problem in the judge, the kernel in its box
    BASELINE = "baseline"  # timed while there is no subject
    VERIFY = "verify"
    MEASURE = "measure"
    PROFILE = "profile"
    CLOSE = "close"  # the box is ended


class BuildOutcome(StrEnum):
    """How a build ended."""

    BUILT = "built"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_EXCEEDED = "output_exceeded"


class TrialOutcome(StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    MISMATCHED = "mismatched"
    UNWRITTEN = "unwritten"
    NON_FINITE = "non_finite"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    INPUT_MODIFIED = "input_modified"
    OUT_OF_BOUNDS = "out_of_bounds"  # a guard band was written
    RAISED = "raised"  # the kernel returned an error or threw
    DEVICE_FAULT = "device_fault"  # the device stopped it; the message begins with the driver's name for it
    OUT_OF_MEMORY = "out_of_memory"  # the device ran out of memory
    CRASHED = "crashed"  # the runner went away
    TIMED_OUT = "timed_out"


# After these a runner has no device, or no process, to go on with: the other sizes of a sweep need a fresh one.
ENDS_PROCESS = (TrialOutcome.CRASHED, TrialOutcome.TIMED_OUT, TrialOutcome.DEVICE_FAULT, TrialOutcome.OUT_OF_MEMORY)


class Symptom(StrEnum):
    """Likeness of the errors of a wrong answer. A hint for people: decides nothing."""

    FLOAT16 = "float16"  # an answer whose inputs were rounded to this dtype has the same errors
    BFLOAT16 = "bfloat16"
    TF32 = "tf32"
    FLOAT16_SUM = "float16_sum"  # times the length of an axis it is of this dtype
    BFLOAT16_SUM = "bfloat16_sum"
    PREVIOUS_ANSWER = "previous_answer"  # the answer to the inputs of the run before
    OUTPUT_READ = "output_read"  # NaN that was computed from what the output held before
    UNCHANGED = "unchanged"  # what was to be changed in place is as it was
    RESULT_IGNORED = "result_ignored"  # nothing was written, by an entry that is given its outputs


class PatternKind(StrEnum):
    """Where the wrong elements of an output are. A hint for people: decides nothing."""

    EVERYTHING = "everything"  # all of them, or nearly all
    REGION = "region"  # where the ranges say, together
    LAST_ROWS_OR_COLUMNS = "last_rows_or_columns"  # where either of two ranges says
    BORDER = "border"  # as many at the end of each axis as its range says for its beginning
    UPPER_TRIANGLE = "upper_triangle"  # above the diagonal of the last two axes
    LOWER_TRIANGLE = "lower_triangle"
    DIAGONAL = "diagonal"
    NONZERO = "nonzero"  # this and the next are in older reports only
    SCATTERED = "scattered"


class TrialPhase(StrEnum):
    """Why a trial was run."""

    VERIFY = "verify"
    CERTIFY = "certify"  # inside the judge's clock


class LoadOutcome(StrEnum):
    """How loading the artifact in the runner ended."""

    LOADED = "loaded"
    ENTRY_NOT_FOUND = "entry_not_found"
    RAISED = "raised"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"


class Clock(StrEnum):
    """The clock that took the times."""

    DEVICE_EVENTS = "device_events"
    HOST = "host"


class BoxCause(StrEnum):
    """Why a box ended, as the isolation saw it."""

    EXITED = "exited"
    SIGNALLED = "signalled"  # the main process died of a signal; 128+n exits count as this
    KILLED = "killed"  # by us, by `kill`
    WALL_LIMIT = "wall_limit"
    MEMORY_LIMIT = "memory_limit"  # the kernel's OOM killer, or our watchdog, struck in it
    OUTPUT_LIMIT = "output_limit"
    PROCESS_LIMIT = "process_limit"  # forks were refused, and it did not end well
    SANDBOX_VIOLATION = "sandbox_violation"  # SIGSYS


class ViolationKind(StrEnum):
    """Kind of an act that no honest kernel does."""

    PROTOCOL = "protocol"  # it wrote to the gate what its shim never writes
    TIMING = "timing"  # its claim is out of the clock's reach
    SANDBOX = "sandbox"  # it died of a forbidden system call


class ToolOutcome(StrEnum):
    """Outcome of a tool of a profile."""

    RAN = "ran"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


# -- what a problem is, for the judge ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Where an input's values come from; see `sandbox/judge/inputs.py` for the kinds, and for which of them these are."""

    kind: str = "normal"
    low: float = 0.0
    high: float = 1.0
    scale: float = 1.0
    high_axis: str = ""  # instead of high: the value of this axis
    scale_spread: float = 1.0  # a trial's scale is scale * 2 ** u, with u from +-scale_spread
    offset: float = 0.25  # a trial's offset is from +-offset times its scale
    needles: int = 4  # so many elements at most, one in 64, are set to needle_factor times the scale
    needle_factor: float = 8.0
    weight: float = 1.0  # of a part
    parts: tuple[Distribution, ...] = ()
    structure: str | None = None  # where the values are, such as "lower_triangular"; None: everywhere
    bandwidth: int | None = None  # of "banded": how far from the diagonal
    density: float | None = None  # of "sparse": how large a part of the elements


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor argument. shape holds axis names and integers; () is a scalar passed by value (inputs only). inout: an input that an entry
    changes in place; the output of its name is what lies there afterwards."""

    name: str
    dtype: str  # torch's name: float32, float16, bfloat16, float64, int64, int32, int16, int8, uint8, bool; float8_*, float4_e2m1fn_x2
    shape: tuple[str | int, ...]
    distribution: Distribution = field(default_factory=Distribution)
    inout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Element-wise |out - ref| <= atol + rtol * |ref|, and an fp64 budget: rms error against the fp64 reference at most
    budget_factor times PyTorch's own in the task's dtype, plus budget_floor times the reference's rms. budget_factor None: no budget.
    allow_lower_precision: an answer computed in half precision or TF32 may be right, so admission does not ask that one is rejected."""

    atol: AnyFloat = 1e-5
    rtol: AnyFloat = 1e-5
    budget_factor: AnyFloat | None = 32.0
    budget_floor: AnyFloat = 2e-6
    allow_lower_precision: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A size of a problem. Hidden ones are not shown to submitters.

    moved_bytes, flops: what every right kernel has to move through the device's memory, and to compute; None: not declared.
    device_kind: the one kind of device that it is meant for; "": every kind. tolerance: its own; None: the problem's.
    arguments: what the problem's own generator is called with, as a JSON object; "": the inputs come from their distributions.
    distributions: of inputs, by name, that differ from the problem's.
    strides: in elements, by name, of the inputs that the problem's own code makes and that are not contiguous, and of such outputs of the
    reference: a kernel may return one that lies so, too.
    """

    workload_id: str
    axes: dict[str, int]
    hidden: bool = False
    moved_bytes: int | None = None
    flops: int | None = None
    device_kind: str = ""
    tolerance: Tolerance | None = None
    arguments: str = ""
    distributions: dict[str, Distribution] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Libraries(StrEnum):
    """Permission to call what others have written: PyTorch's operators, cuBLAS, cuDNN and so on."""

    ALLOWED = "allowed"
    LABELLED = "labelled"  # the report names what it uses
    FORBIDDEN = "forbidden"


class Convention(StrEnum):
    """How an entry is called. One with C linkage has a convention of its own, and one of a torch extension takes neither `MODEL` nor
    `DATA`."""

    POSITIONAL = "positional"  # entry(*inputs), which returns the outputs
    MODEL = "model"  # entry is a class: made of the state's arguments, given the state's weights, then called as above
    DATA = "data"  # entry(data), where data is the nest of tensors and values that the template says; returns such a nest
    DESTINATION = "destination"  # entry(*inputs, *outputs), which returns nothing
    ARGUMENTS = "arguments"  # entry(*data), with data as above, a tuple; returns the outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSpec:
    """A problem as the judge needs it. reference is source text that only the judge executes: of more files than one it is a JSON object
    of texts by name. inputs, outputs: () where only the problem's own code knows them; then `sandbox/judge/references` fills them in.
    weights: what a model of `Convention.MODEL` keeps, () where that is not known: further inputs of an entry that is no model.
    modules: texts by file name, such as "task.py", that a Python submission may import; nothing secret is among them."""

    problem_id: str
    format: str
    entry: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    workloads: tuple[Workload, ...]
    tolerance: Tolerance
    reference: str
    axes: tuple[str, ...] = ()  # the order in which the raw `cuda` entry takes them
    trial_count: int = 3
    trial_s: float = 10.0
    digest: str = ""
    convention: Convention = Convention.POSITIONAL
    libraries: Libraries = Libraries.ALLOWED
    baselines: tuple[str, ...] = ()  # next to "eager" and, on a GPU, "compile": "max-autotune"
    modules: dict[str, str] = field(default_factory=dict)
    rule: str = ""  # what counts as right, for people, where the format has a rule of its own; "": the tolerance
    weights: tuple[TensorSpec, ...] = ()

    @property
    def in_place(self) -> tuple[int | None, ...]:
        """For each output the number of the input whose memory it is; None: it has its own."""
        numbers = {tensor.name: index for index, tensor in enumerate(self.inputs) if tensor.inout}
        return tuple(numbers.get(tensor.name) for tensor in self.outputs)

    @property
    def is_repeatable(self) -> bool:
        """Return whether a launch on its own results is as good as the first: integers that are changed in place may be places."""
        return not any(tensor.inout and "float" not in tensor.dtype for tensor in self.inputs)

    @property
    def separate_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs that have memory of their own: those that an entry takes, or returns."""
        return tuple(tensor for tensor, number in zip(self.outputs, self.in_place, strict=True) if number is None)


# -- jobs ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request to judge: the runner behind `link_path` is to be verified and measured."""

    job_id: str
    problem: ProblemSpec
    language: str
    entry: str
    mode: Mode
    link_path: str  # the judge listens here; the runner in the box connects
    artifact_path: str  # a private file; the judge hands it on as a sealed memfd
    artifact_digest: str  # sha256 hex; checked before use
    runner_uid: int | None = None  # connections from another uid are refused; None: not checked
    load_s: float = 60.0
    measure_s: float = 20.0  # budget for one workload's measurement
    precision: float = 0.01  # the half-width at which a measurement may end
    kept_times: bool = False  # in BENCHMARK: of the baselines, from an earlier job, will do; without, it is verified, and ends with Restart
    own_share: float | None = None  # as the Restart of an earlier process had it
    sweep_s: float = 0.0  # of mode SWEEP: no size begins later than this
    argument_order: tuple[Count, ...] = ()  # as in BuildNote


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionJob:
    """A request to check a problem, at the workloads that there is memory and time for. Answered by Findings.

    describe_only: learn its arguments, and do not try any answer. Answered by Described where that can be done.
    reference_module: the judge's half of the problem's format, where another package brings it and the box has a copy.
    """

    job_id: str
    problem: ProblemSpec
    budget_s: float = 60.0
    describe_only: bool = False
    reference_module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """The job that the build box reads from {src}/job.json."""

    language: str
    entry: str
    device_kind: str
    sources: tuple[str, ...]  # paths below {src}/files
    architecture: str = ""  # for nvcc, such as "sm_90"; "": its default here
    language_module: str = ""  # of a language that another package brings
    modules: tuple[str, ...] = ()  # the problem's own files that a Python submission may import, below {src}/modules
    sanitize: bool = False  # compiled for the emulated device's sanitizer
    call: EntryCall | None = None  # None where only the problem's own code knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCall:
    """How the entry of a problem is called, as `problems show` tells everybody: for remarks on a build. inputs, outputs: without their
    distributions; axes: as in ProblemSpec; sizes: the axes of a workload that is not hidden, {} where there is none."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]  # those with memory of their own
    axes: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    convention: Convention = Convention.POSITIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerJob:
    """The job that the judge sends to a runner. Nothing in it helps to guess an input or an answer, or a hidden workload's size:
    arena_bytes is a round number, and hidden workloads' templates are "" until the first of them is to be run."""

    device_kind: str
    language: str
    entry: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]  # those with memory of their own
    arena_bytes: int
    convention: Convention = Convention.POSITIONAL
    # Of `DATA` and `ARGUMENTS`: the trees of inputs and outputs, as `sandbox/protocol/pytree.py` writes them; a call says which.
    templates: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    argument_order: tuple[Count, ...] = ()  # as in BuildNote
    language_module: str = ""  # of a language that another package brings


# -- facts ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Device, host and tools that the report was made with."""

    device: str
    device_kind: str
    clock: Clock
    isolation: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    architecture: str = ""  # what is built for it, such as "sm_90"; "" where there is no choice
    device_uuid: str = ""
    ceilings: dict[str, float] = field(default_factory=dict)  # measured once: "bytes_per_s", "flops_per_s:float32" and so on


class ScreeningOutcome(StrEnum):
    """Outcome of the stage on the emulated device, before a GPU."""

    PASSED = "passed"
    FAILED = "failed"  # the answer is wrong, and no GPU is used
    INCONCLUSIVE = "inconclusive"  # the emulated device can't tell
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How the stage on the emulated device ended. detail: why, unless it passed or failed. workload_count: those that it was to run."""

    outcome: Annotated[ScreeningOutcome, ALWAYS]
    detail: Annotated[str, ALWAYS] = ""
    workload_count: Annotated[SmallCount, ALWAYS] = 0
    duration_ns: Annotated[Count, ALWAYS] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A stage began; for people, decides nothing. hidden_at_ns: by the host's monotonic clock, before the first hidden workload is run."""

    stage: Annotated[Stage, ALWAYS]
    workload_id: Annotated[str | None, NAME] = None
    hidden_at_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A fresh runner process begins: what follows, up to the next of these, is of it. Ranked mode has several, after one build. What came
    before the first decides nothing, unless it failed."""

    index: SmallCount  # counts up from 0
    count: SmallCount  # how many there are, if all goes well


class RestartCause(StrEnum):
    """Why a job has to be judged again."""

    NOT_TIMED = "not_timed"  # no times of the baselines are kept
    OUTDATED = "outdated"  # those that are kept don't fit what was measured
    UNOBSERVED = "unobserved"  # the process ended under a profiler, which the next one does not meet


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The last fact of a job with `kept_times` that is right so far: the baselines are to be timed, and then a fresh process judged."""

    job_id: str
    cause: RestartCause
    own_share: float | None = None  # as of Measurement, of the process that ends here


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUse:
    """Resources of the device that a kernel uses, by the compiler; a claim of the builder's."""

    name: str  # demangled where that is possible
    registers: Count  # 0: not known
    shared_bytes: Count = 0
    stack_bytes: Count = 0
    spill_store_bytes: Count = 0
    spill_load_bytes: Count = 0
    constant_bytes: Count = 0
    double_instruction_count: Count = 0  # of its PTX: arithmetic in float64, and conversions to and from it


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildNote:
    """Notes of the builder, next to the artifact; a claim that decides nothing but how the entry is called."""

    headers: str = ""  # which headers answered the source: "", "light" or "full"; `sandbox/compilers/headers.py`
    fallback: str = ""  # why the light ones were not enough, in a sentence
    kernels: tuple[KernelUse, ...] = ()
    remarks: tuple[str, ...] = ()  # what else its author should know, a sentence each, such as a flag that was not used
    # The place of each parameter's argument among inputs, outputs, axes and stream; () where that is the order.
    argument_order: tuple[Count, ...] = ()
    mismatch: str = ""  # what contradicts the problem in the parameters, in a sentence
    unbuilt: str = ""  # extensions of a Python module that did not build, with the first error; the module caught it


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """How a kernel was built. reason refines REJECTED, such as UNSUPPORTED or ENTRY_NOT_FOUND."""

    outcome: BuildOutcome
    log: str = ""
    log_truncated: bool = False
    duration_ns: Count = 0
    artifact_digest: str | None = None
    reason: str | None = None
    cached: bool = False  # the artifact of an earlier build of the same bytes and settings
    headers: str = ""  # as in BuildNote
    fallback: str = ""
    kernels: tuple[KernelUse, ...] = ()  # as in BuildNote
    remarks: tuple[str, ...] = ()
    argument_order: tuple[Count, ...] = ()
    mismatch: str = ""
    unbuilt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Trials that have to pass before anything may be accepted: (workload_id, phase, count). rule: what counts as right, for people.

    sweep: it begins a sweep of these sizes, and asks for none of them; each has a plan of its own, unless there was no time for it.
    """

    trials: tuple[tuple[str, TrialPhase, Count], ...]
    measured: tuple[str, ...] = ()
    rule: str = ""
    sweep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How the runner took the artifact."""

    outcome: Annotated[LoadOutcome, ALWAYS]
    message: Annotated[str, FIRST] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongElement:
    """An element of an output that is not right. index: from the outermost axis; () for an output without axes. allowed_error: by how much
    it may differ from what is expected."""

    output: str
    index: tuple[Count, ...]
    expected: AnyFloat
    actual: AnyFloat
    allowed_error: AnyFloat = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Every `step`-th index of an axis, both ends included. axis None: places in the order of memory."""

    axis: SmallCount | None
    size: Count
    first: Count
    last: Count
    step: Count = 1
    width: Count = 1  # another number in older reports only: the first so many of every step


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongPattern:
    """Common place of the wrong elements of an output. count: how many they are. unwritten: only those that were never written count."""

    output: str
    shape: tuple[Count, ...]
    kind: PatternKind
    count: Count
    unwritten: bool = False
    ranges: tuple[IndexRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run of the kernel on fresh inputs, compared with the reference."""

    workload_id: Annotated[str, NAME]
    phase: Annotated[TrialPhase, ALWAYS]
    index: Annotated[SmallCount, NOT_SECRET]
    outcome: Annotated[TrialOutcome, ALWAYS]
    hidden: Annotated[bool, ALWAYS] = False
    key: Annotated[str, NOT_HIDDEN] = ""  # 128-bit hex that the inputs were made from
    element_count: Annotated[Count, NOT_HIDDEN] = 0
    mismatched_count: Annotated[Count, NOT_HIDDEN] = 0
    unwritten_count: Annotated[Count, NOT_HIDDEN] = 0
    nonfinite_count: Annotated[Count, NOT_HIDDEN] = 0
    max_absolute_error: Annotated[AnyFloat | None, FIRST] = None
    max_relative_error: Annotated[AnyFloat | None, FIRST] = None
    budget_ratio: Annotated[AnyFloat | None, FIRST] = None  # error over the fp64 budget; above 1 fails
    message: Annotated[str, FIRST] = ""  # untrusted text where outcome is RAISED
    duration_ns: Annotated[Count, FIRST] = 0
    run_count: Annotated[Count, NOT_SECRET] = 1  # how many runs that passed this stands for; then the errors are the largest of them
    wrong_elements: Annotated[tuple[WrongElement, ...], FIRST] = ()  # the first ones, where an answer was compared and is wrong
    symptom: Annotated[Symptom | None, FIRST] = None
    cuda_error: Annotated[str, FIRST] = ""  # what the CUDA runtime said after the call, such as a failed launch; a claim, untrusted text
    wrong_pattern: Annotated[WrongPattern | None, FIRST] = None  # of the first output with wrong elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Times of one thing in nanoseconds, in the order taken. At least one; a difference to the null run may be negative."""

    durations_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.durations_ns:
            raise WireError("Samples has no durations_ns; at least one is needed")


RESOLVED_FACTOR = 4.0  # an interval whose ends are further apart says nothing: there is no figure then


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Baseline over subject from interleaved turns, with a 95 % interval."""

    baseline: str
    ratio: float
    ratio_low: float
    ratio_high: float


class MeasurementEnd(StrEnum):
    """Why no more turns were taken."""

    WIDTH = "width"  # the interval was as narrow as asked for
    FLOOR = "floor"  # it was not, and more turns would not have made it so: the clock itself is less precise
    TURNS = "turns"  # as many were taken as ever are
    BUDGET = "budget"  # the time was over


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The times of one workload."""

    workload_id: Annotated[str, NAME_NOT_SECRET]
    clock: Annotated[Clock, NOT_SECRET]
    certified: Annotated[Samples, NOT_SECRET]  # the estimate: the protocol's time minus the null run's median
    bound_ns: Annotated[int, NOT_SECRET]  # median minus the null run's floor: real work is never longer
    floor_ns: Annotated[int, NOT_HIDDEN]
    hidden: Annotated[bool, NOT_SECRET] = False
    reported: Annotated[Samples | None, NOT_HIDDEN] = None  # a claim
    reported_confirmed: Annotated[bool, NOT_SECRET] = False
    shortest_ns: int | None = None  # what the claim is held to, where that is less than the shortest certified time
    disturbed: bool = False  # null runs scattered as they do when somebody else is on the device; then it is forgiven the least
    baseline_slowed: bool = False  # next to the subject it ran slower than alone; then its time alone was taken
    baselines: Annotated[dict[str, Samples], NOT_SECRET] = field(default_factory=dict)
    speedups: Annotated[tuple[Speedup, ...], NOT_SECRET] = ()
    reported_baselines: Annotated[dict[str, Samples], NOT_SECRET] = field(default_factory=dict)  # by the trusted runner's do_bench
    physical_floor_ns: Annotated[Count | None, NOT_HIDDEN] = None  # the declared bytes and flops at the device's measured ceilings
    moved_bytes: Annotated[Count | None, NOT_HIDDEN] = None  # as the workload declares them
    flops: Annotated[Count | None, NOT_HIDDEN] = None
    conditions: Annotated[dict[str, str], NOT_SECRET] = field(default_factory=dict)  # while it was timed: clocks, temperature and so on
    turn_count: Annotated[SmallCount, NOT_HIDDEN] = 0  # turns taken; 0: of a judge that did not count them
    half_width: Annotated[AnyFloat | None, NOT_HIDDEN] = None  # of the widest baseline's interval of logarithms
    end: Annotated[MeasurementEnd | None, NOT_HIDDEN] = None
    own_share: Annotated[float | None, FIRST] = None  # of its kernels in device time, or in launches by the host's clock; a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Use of libraries by a kernel, by their functions' names. imported: the artifact wants them. seen: called in trials under
    observation, as the runner says."""

    policy: Libraries
    imported: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTool:
    """A tool of a profile. detail: what it covers, or why it failed or is not available, in a sentence; a claim."""

    name: str
    outcome: ToolOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """Launches of one kernel with one configuration, as the kernel's process reports them; a claim. grid, block: x, y, z."""

    kernel: str
    grid: tuple[Count, ...]
    block: tuple[Count, ...]
    shared_bytes: Count = 0
    count: Count = 1
    duration_ns: Count | None = None  # of all of them together; None where nothing took it


class SanitizerKind(StrEnum):
    """Kind of a sanitizer's finding."""

    OUT_OF_BOUNDS = "out_of_bounds"
    UNINITIALISED_READ = "uninitialised_read"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent_barrier"
    MISALIGNED = "misaligned"
    INACTIVE_LANE = "inactive_lane"  # a shuffle or a mask names a lane that does not take part
    UNCHECKED_LAUNCH = "unchecked_launch"  # a launch failed, and the host never asked


class SanitizerSeverity(StrEnum):
    """Severity of a finding: an error makes a kernel wrong."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerFinding:
    """Something that a sanitizer saw a kernel do, once for each pair of source lines; a claim. message: a sentence. path, line: where, as
    the submission names its files; "" and 0 where that is not known. other_path, other_line: the other access of a race. memory: the
    array's name, as far as it is known. block, thread: x, y, z of the first. count: how often it was seen."""

    kind: SanitizerKind
    severity: SanitizerSeverity
    message: str
    path: str = ""
    line: SmallCount = 0
    other_path: str = ""
    other_line: SmallCount = 0
    memory: str = ""
    block: tuple[Count, ...] = ()
    thread: tuple[Count, ...] = ()
    count: Count = 1


class MemoryAccess(StrEnum):
    """Kind of a memory access."""

    GLOBAL_LOAD = "global_load"
    GLOBAL_STORE = "global_store"
    GLOBAL_ATOMIC = "global_atomic"
    SHARED_LOAD = "shared_load"
    SHARED_STORE = "shared_store"
    SHARED_ATOMIC = "shared_atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """Accesses of one source line, as the warps of a GPU would make them; a claim. path, line: as the submission names its files. requests:
    one each time that a warp executes an access. transactions: 32-byte sectors of global memory, or passes (wavefronts) of shared memory;
    each pass beyond the least is a bank conflict. least_transactions: as many as the same bytes need. active_lanes, requested_bytes: sums
    over the requests."""

    path: str
    line: SmallCount
    access: MemoryAccess
    requests: Count
    transactions: Count
    least_transactions: Count
    active_lanes: Count
    requested_bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCounts:
    """Counts of the emulated device's sanitizer, in some blocks of each launch: counts, never times. lines: those with the most
    transactions. partial: some accesses of these blocks were left out, because they were too many."""

    lines: tuple[LineCounts, ...] = ()
    counted_blocks: Count = 0
    blocks: Count = 0  # of all launches
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """Findings of the tools of profile mode, or of a sanitizer. All of it is a claim of the boxes that they ran in, and decides nothing.
    workload_id: the public workload that was run; "" where none was. architecture: what the static tools compiled for."""

    tools: tuple[ProfileTool, ...] = ()
    workload_id: str = ""
    architecture: str = ""
    kernels: tuple[KernelUse, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()
    remarks: tuple[str, ...] = ()
    findings: tuple[SanitizerFinding, ...] = ()  # the likeliest cause first
    access_counts: AccessCounts | None = None  # None where nothing was counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileNote:
    """Note that a box of profile mode leaves in {out}, next to its files: its findings, and the tool of each file. A claim."""

    profile: KernelProfile
    files: dict[str, str] = field(default_factory=dict)  # tools, by the names of files


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFile:
    """A file that a tool of a profile left and that is kept under its digest, the sha256 in hex. tool: as in ProfileTool."""

    name: str
    tool: str
    digest: str
    size_bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that no honest kernel does."""

    kind: ViolationKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How the run box ended, from the isolation."""

    cause: BoxCause
    exit_code: Int32 | None = None
    signal: Int32 | None = None
    output: Annotated[str, OUTPUT] = ""  # untrusted text
    wall_ns: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """How long a step took. begin_ns: since the attempt began, by the host's monotonic clock."""

    step: Step
    begin_ns: Count
    duration_ns: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTimeline:
    """Steps that an attempt spent its time on, one after the other without gaps; for people, decides nothing."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The judge did all that its plan says, or stopped at the first failure. Nothing follows for this job."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The judge failed, not the kernel: the problem's reference raised, or the device is unwell."""

    job_id: str
    message: str
    problem_at_fault: bool = False
    device_lost: bool = False  # the judge's own context or the device is unwell; the judge has to be started anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """To a judge, when a box is gone: is the device as it was before?"""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """To a judge without a job: compile and time the baselines of this problem now. Answered like a Job, by Progress and then Finished or
    Broken."""

    job_id: str
    problem: ProblemSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer to Check. detail says what is wrong, or what was seen."""

    job_id: str
    healthy: bool
    detail: str = ""


class FindingOutcome(StrEnum):
    """Outcome of a check of a problem."""

    PASSED = "passed"
    FAILED = "failed"  # a cheat could pass, or a right kernel could not: the problem is refused
    WARNING = "warning"  # a wrong kernel could pass, and the problem is admitted all the same: it is somebody else's, or asks for no more
    UNKNOWN = "unknown"  # cannot be determined here; the message says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Finding of the check of a problem (`grader_extensions/problem_check`). workload_id "": of all that were checked."""

    check: str
    workload_id: str
    outcome: FindingOutcome
    message: str = ""  # what could pass, and how to fix the problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Arguments of a problem that only its own code knows: a claim of that code. digest: the problem's. axes: sizes, by name.
    strides: as a workload has them.

    obstacle: why it can't be given to an entry that is no model, in a sentence; "" where it can.
    """

    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights: tuple[TensorSpec, ...]
    axes: dict[str, int]
    obstacle: str = ""
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)


Fact = (
    Environment
    | Screening
    | Progress
    | Round
    | Build
    | Plan
    | Load
    | Trial
    | Measurement
    | Evidence
    | KernelProfile
    | ArtifactFile
    | Violation
    | RunEnd
    | AttemptTimeline
    | Restart
    | Finished
    | Broken
    | Health
)

MESSAGES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *typing.get_args(Fact),
        *(Job, AdmissionJob, BuildJob, BuildNote, RunnerJob, Check, Prepare),
        *(ProfileNote, Finding, Described),
    )
}


def encode(message: object) -> bytes:
    """Write a job or a fact as one JSON line."""
    name = type(message).__name__
    if MESSAGES.get(name) is not type(message) or not dataclasses.is_dataclass(message) or isinstance(message, type):
        raise WireError(f"{name} is no message of this wire")
    return json.dumps({"type": name, **parts(message)}, allow_nan=True, separators=(",", ":"), default=parts).encode() + b"\n"


def parts(data: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, not copied: what `json.dumps` asks for what it does not know, many times as quick as asdict."""
    return {name: getattr(data, name) for name in field_names(type(data))}  # type: ignore[arg-type]


@cache
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(attribute.name for attribute in dataclasses.fields(kind))


def decode(line: bytes) -> Any:
    """Read one line. WireError where it is no known message, has an unknown or missing key, or a value of another type or out of range."""
    if len(line) > LINE_LIMIT_BYTES:
        raise WireError(f"a line of {len(line)} bytes is over {LINE_LIMIT_BYTES}")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("type"), str) or data["type"] not in MESSAGES:
        raise WireError("no known message type")
    try:
        return _build(MESSAGES[data.pop("type")], data)
    except OverflowError as error:
        raise WireError(f"a number is too large: {error}") from None
    except RecursionError:  # JSON reads deeper than this goes
        raise WireError("nested too deep") from None


def _build(cls: type[Any], data: dict[str, Any]) -> Any:
    hints = field_types(cls)  # type: ignore[arg-type]
    unknown = set(data) - set(hints) - RETIRED.get(cls, frozenset())
    if unknown:
        raise WireError(f"{cls.__name__} has no {sorted(unknown)}")
    try:
        return cls(**{key: _value(hints[key], value, f"{cls.__name__}.{key}") for key, value in data.items() if key in hints})
    except TypeError as error:
        raise WireError(str(error)) from None


RETIRED = {  # fields of facts that a ledger may still hold; they are left out
    Measurement: frozenset({"waited_ns", "done_early", "batch", "batch_size", "left_out_count"}),
    Trial: frozenset({"order_swap", "error_map"}),
    KernelProfile: frozenset({"order_swap"}),
    AccessCounts: frozenset({"flops"}),
    Evidence: frozenset({"hints"}),
    Health: frozenset({"used_bytes", "canary_ns"}),
}


def disclosure_of(hint: Any) -> Disclosure | None:
    """Return what an annotation says of who sees the field; None where it says nothing."""
    extras = getattr(hint, "__metadata__", ())
    return extras[-1] if extras and isinstance(extras[-1], Disclosure) else None


@cache  # evaluating annotations takes longer than all else here
def field_types(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a message, without who sees them."""
    return {name: _undisclosed(hint) for name, hint in typing.get_type_hints(cls, include_extras=True).items()}


def _undisclosed(hint: Any) -> Any:
    if disclosure_of(hint) is None:
        return hint
    extras = hint.__metadata__[:-1]
    return Annotated[(hint.__origin__, *extras)] if extras else hint.__origin__


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, value, where)
    if origin is Annotated:
        return _number(arguments[0], arguments[1], value, where)
    if hint in (int, float):
        return _number(hint, INT64, value, where)
    if hint is str and isinstance(value, str):
        return _text(value, where)
    if origin is tuple and isinstance(value, list):
        inner = (arguments[0],) * len(value) if len(arguments) == 2 and arguments[1] is Ellipsis else arguments
        if len(inner) == len(value):
            return tuple(_value(inner_hint, item, where) for inner_hint, item in zip(inner, value, strict=True))
    elif origin is dict and isinstance(value, dict):
        return {_text(key, where): _value(arguments[1], item, where) for key, item in value.items()}
    elif isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _build(hint, value)
    elif isinstance(hint, type) and issubclass(hint, StrEnum) and isinstance(value, str):
        try:
            return hint(value)
        except ValueError:
            raise WireError(f"{where} has no value {value!r}") from None
    elif hint is bool and isinstance(value, bool):
        return value
    raise WireError(f"{where} can't be {type(value).__name__}")


def _number(kind: type, limits: tuple[int, int] | None, value: Any, where: str) -> int | float:
    """A number of this kind. limits: of an int; a float may be infinite or NaN where there are none."""
    if kind is int and type(value) is int and limits is not None:
        if not limits[0] <= value <= limits[1]:
            raise WireError(f"{where} is out of range; it is from {limits[0]} to {limits[1]}")
        return value
    if kind is float and type(value) in (int, float):
        if limits is not None and not math.isfinite(value):
            raise WireError(f"{where} is not finite")
        return float(value)
    raise WireError(f"{where} can't be {type(value).__name__}")


def _text(value: str, where: str) -> str:
    """The text, if UTF-8 can say it: neither the API nor a database takes half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WireError(f"{where} holds half of a surrogate pair") from None
    return value


def _union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    *first_kinds, last_kind = (kind for kind in arguments if kind is not type(None))
    for kind in first_kinds:
        with suppress(WireError):
            return _value(kind, value, where)
    return _value(last_kind, value, where)
