"""The judge's half of reference_kernels: `generate_input(**case)`, `ref_kernel(data)`, `check_implementation(data, output)`.

Their eval.py is never run. What goes to a runner is the flat list of the tensors in `data`, each as it lies in memory; the template has
what lies around them, and how their dimensions are ordered. Each case is run once to learn its tensors, and to which of them a kernel may
write. They go to slots, which are the same for all cases: of a dtype and a number of dimensions each. A case that needs fewer than another
leaves a slot empty.
Booleans and lists of a case are passed as what they are (their own harness passes the text "False", which is true).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy
import torch

from grader_extensions.formats import nests, problem_code
from grader_extensions.formats.nests import dtype_name, filled, in_memory, is_nan, renumbered, tensors_of
from sandbox.judge import tolerance
from sandbox.judge.references import ReferenceFailed, Task, Tensors
from sandbox.judge.tolerance import Comparison, is_narrow, same_bytes
from sandbox.launch import objects
from sandbox.protocol import pytree, wire
from sandbox.protocol.gate import RANK_LIMIT, TENSOR_LIMIT

GENERATE, REFERENCE, CHECK, SEED = "generate_input", "ref_kernel", "check_implementation", "seed"
NO_FILL = "fill_empty_deterministic_"  # what torch says of a dtype that it can't fill fresh memory of, such as float4
NOT_EMULATED = ("_scaled_mm", "Float8", "Float4", "float8", "float4")
Both = Callable[[Tensors], tuple[Any, Any]]  # of all tensors: the data, and the output
NARROW = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"}
DTYPES = nests.DTYPES | NARROW
# Inputs that a kernel may write to. BLANK: the reference only writes to it. KEPT: it reads and writes. UNUSED: it does neither, and it is a
# buffer for the output by its looks.
BLANK, KEPT, UNUSED = "blank", "kept", "unused"
OTHER_VALUE = 3  # other than what a generator leaves in memory that it does not write
Kind = tuple[str, int]  # dtype and number of dimensions
Occurrence = tuple[Kind, int]


class Code:
    """The functions of reference.py, which is executed, and the modules of the files that it imports."""

    def __init__(self, spec: wire.ProblemSpec, where: str) -> None:
        # Their deterministic contexts take it for set: without it torch refuses cuBLAS there. It is torch's own default on Hopper.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        texts = {name.removesuffix(".py"): text for name, text in json.loads(spec.reference).items()}
        names = (GENERATE, REFERENCE, CHECK)
        self.where, self.modules = where, problem_code.executed(spec, where, texts, "reference", names)
        self.generate, self.reference, self.check = (getattr(self.modules.load("reference"), name) for name in names)

    def data(self, case: dict[str, Any], key: str, *, fill: bool = True) -> Any:
        """Call generate_input with a case and a key. Memory that it leaves unwritten is NaN, so that it shows if a kernel does too."""
        parameters = inspect.signature(self.generate).parameters.values()
        seeded = any(parameter.name == SEED or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        seed = {SEED: int(key[:8], 16) >> 1} if seeded else {}  # 31 bits, which every generator takes
        try:
            with problem_code.contained(GENERATE, self.where), problem_code.seeded(key, self.where), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.use_deterministic_algorithms(fill, warn_only=True)
                torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
                return self.generate(**{**case, **seed})
        except ReferenceFailed as failure:
            if not fill or NO_FILL not in str(failure):
                raise
        return self.data(case, key, fill=False)

    def run(self, data: Any, key: str, name: str) -> Any:
        """Call the reference."""
        try:
            with problem_code.contained(f"{REFERENCE} at {name!r}", self.where), problem_code.seeded(key, self.where):
                return self.reference(data)
        except ReferenceFailed as failure:
            if self.where != "cpu" or not any(word in f"{failure} {failure.__cause__}" for word in NOT_EMULATED):
                raise
            text = "it needs an operation on float8 or float4 that the emulated device does not have; grade this problem on a GPU"
            raise ReferenceFailed(f"{failure}; {text}") from failure

    def inputs(self, case: dict[str, Any], key: str, name: str) -> tuple[Tensors, list[Any]]:
        """The tensors that a case makes from a key, on the device and as they lie in memory, and the nodes around them."""
        tensors, data = self.flat(self.data(case, key), f"{GENERATE} at {name!r}")
        for index, tensor in enumerate(tensors):
            where = f"tensor {index} of {GENERATE} at {name!r}"
            if dtype_name(tensor) not in DTYPES or tensor.layout != torch.strided:
                raise ReferenceFailed(f"{where} is {tensor.layout} of {tensor.dtype}, which can't be sent to a kernel")
            if not 1 <= tensor.dim() <= RANK_LIMIT:
                text = f"has {tensor.dim()} dimensions; give it 1 to {RANK_LIMIT}, or make it a plain number"
                raise ReferenceFailed(f"{where} {text}")
            if not in_memory(tensor).is_contiguous():
                text = f"has strides {tensor.stride()}, so there are gaps or overlaps in its memory, which can't be sent: add .contiguous()"
                raise ReferenceFailed(f"{where} {text}")
        return [laid_out(tensor.to(self.where)) for tensor in tensors], data

    def flat(self, value: object, subject: str) -> tuple[Tensors, list[Any]]:
        """The tensors of a nest and the nodes around them; what made it is blamed for what can't be sent."""
        parts = partial(nests.object_parts, name_of=self._class_name)
        return problem_code.flatten(value, f"what {subject} makes", dimensions=nests.dimensions, parts=parts)

    def make_object(self, kind: str, name: str, fields: dict[str, Any]) -> Any:
        """An object of data, of the class that the problem's code gave it."""
        file, _, path = name.partition(".")
        attribute = _attribute(self.modules.load(file), path) if self.modules.has(file) else None
        return objects.make_object(kind, name, fields, attribute if isinstance(attribute, type) else objects.torch_class(name))

    def _class_name(self, of: type) -> str | None:
        """The name of a class at the top level of one of the files, or of torch.nn; None for any other."""
        if objects.torch_class(full := f"{of.__module__}.{of.__qualname__}") is of:
            return full
        file = self.modules.file_of(of.__module__)
        findable = file is not None and _attribute(self.modules.load(file), of.__qualname__) is of
        return f"{file}.{of.__qualname__}" if findable else None

    def accepts(self, make: Both, inputs: Tensors, outputs: Tensors, expected: Tensors) -> bool:
        """Return whether the problem's own check accepts these outputs. It is the problem's fault if that does not accept the reference's
        output either."""
        if self._accepts(make, inputs, outputs):
            return True
        try:
            sound = self._accepts(make, inputs, expected, certain=True)
        except ReferenceFailed as failure:
            raise ReferenceFailed(f"{failure}, given the output of {REFERENCE}; fix {CHECK}") from failure
        if not sound:
            raise ReferenceFailed(f"{CHECK} does not accept what {REFERENCE} returns for the same data; fix one of them")
        return False

    def _accepts(self, make: Both, inputs: Tensors, outputs: Tensors, certain: bool = False) -> bool:
        copies = [tensor.clone() for tensor in (*inputs, *outputs)]
        try:
            with problem_code.contained(CHECK, self.where), problem_code.seeded(CHECK, self.where):
                message = self.check(*make(copies))
        except ReferenceFailed:
            if certain:
                raise
            return False  # a check that stumbles over an answer has not accepted it
        verdict = message[0] if isinstance(message, (tuple, list)) and len(message) == 2 else message
        if isinstance(verdict, str):
            return not verdict
        if isinstance(verdict, (bool, numpy.bool_, torch.Tensor)):
            return bool(verdict)
        text = f"{CHECK} returned a {type(message).__name__}; return (right, message), or a message that is empty if right"
        raise ReferenceFailed(text)


def _attribute(module: Any, path: str) -> Any:
    return reduce(lambda owner, name: getattr(owner, name, None), path.split("."), module)


def task(spec: wire.ProblemSpec, where: str) -> Task:
    """Execute the files once, and every case once if its shapes are not known yet."""
    code = Code(spec, where)
    if not spec.outputs:
        spec = described(spec, code)
    cases = {workload.workload_id: _TaskCase(spec, workload, code) for workload in spec.workloads}
    by_shapes = {case.shapes: case for case in cases.values()}

    @problem_code.with_own_code
    def reference(inputs: Tensors) -> Tensors:
        return by_shapes[tuple(tensor.shape for tensor in inputs)].run(inputs)

    def compare(workload: wire.Workload, inputs: Tensors, outputs: Tensors, expected: Tensors, unwritten: Tensors) -> list[Comparison]:
        case = cases[workload.workload_id]
        if tuple(map(nests.shape_of, expected)) != case.outputs:
            raise ReferenceFailed(f"{REFERENCE} at {case.name!r} returns shapes or dtypes that differ from seed to seed")
        allowed = replace(workload.tolerance or spec.tolerance, budget_factor=None)
        triples = list(zip(outputs, expected, unwritten, strict=True))
        comparisons = [tolerance.compare(out, ref, None, mask, allowed) for out, ref, mask in triples]
        # Whether what still holds the poison was not written: a float of one byte may be right and look so.
        poisoned = any(out.is_floating_point() and not is_narrow(out.dtype) and bool(mask.any()) for out, _, mask in triples)
        if not poisoned and code.accepts(case.both, inputs, outputs, expected):
            return [_accepted(comparison, out, ref) for comparison, (out, ref, _) in zip(comparisons, triples, strict=True)]
        if all(comparison.outcome is wire.TrialOutcome.PASSED for comparison in comparisons):  # each element may be near the reference's
            comparisons[0] = replace(comparisons[0], mismatched_count=1)
        return comparisons

    return Task(
        spec=spec,
        reference=reference,
        draw=lambda workload, key: cases[workload.workload_id].draw(key),
        compare=compare,
        templates=tuple(json.loads(workload.arguments)["template"] for workload in spec.workloads),
        scratch=tuple(sorted({index for case in cases.values() for index in case.scratch})),
    )


class _TaskCase:
    """A workload as it was described: what is generated, what goes around the tensors, and which inputs the reference writes to."""

    def __init__(self, spec: wire.ProblemSpec, workload: wire.Workload, code: Code) -> None:
        self.name, self._code = workload.workload_id, code
        arguments = json.loads(workload.arguments)
        data, _, output = json.loads(arguments["template"])[1]
        self._arguments = arguments["case"]
        self.scratch: dict[int, str] = {int(index): kind for index, kind in arguments["scratch"].items()}
        self._data_text, self._data, self._output = json.dumps(data), pytree.builder(data, code.make_object), pytree.builder(output)
        self._input_numbers = [number for number, _ in pytree.leaves(data)]
        self._output_numbers = [number - len(spec.inputs) for number, _ in pytree.leaves(output)]
        # How `permute` makes what is sent.
        self._output_orders = [order and [order.index(dim) for dim in range(len(order))] for _, order in pytree.leaves(output)]
        self._inputs, self.outputs = (nests.shapes_at(tensors, workload.axes) for tensors in (spec.inputs, spec.outputs))
        self.shapes = tuple(shape for _, shape in self._inputs)  # by which the case is found

    def both(self, tensors: Tensors) -> tuple[Any, Any]:
        """The data and the output that these are the tensors of."""
        return self._data(tensors), self._output(tensors)

    def run(self, inputs: Tensors) -> Tensors:
        """The outputs. Inputs that the reference writes to are its own: those that it only writes come without their content."""
        tensors = list(inputs)
        for index, kind in self.scratch.items():
            if kind != UNUSED:
                tensors[index] = torch.empty_like(inputs[index]) if kind == BLANK else inputs[index].clone()
        returned = tensors_of(self._code.reference(self._data(tensors)))
        if len(returned) != len(self._output_numbers):
            raise ReferenceFailed(f"{REFERENCE} at {self.name!r} returns more or fewer tensors than at first")
        outputs = [
            (tensor if order is None or tensor.dim() != len(order) else tensor.permute(order)).detach().contiguous()
            for tensor, order in zip(returned, self._output_orders, strict=True)
        ]
        return nests.placed(outputs, self._output_numbers, self.outputs, self._code.where)

    def draw(self, key: str) -> Tensors:
        """Inputs of a key, of the same shapes and with the same values around them as at first."""
        tensors, data = self._code.inputs(self._arguments, key, self.name)
        same_shapes = list(map(nests.shape_of, tensors)) == [self._inputs[number] for number in self._input_numbers]
        if not same_shapes or json.dumps(renumbered(data, self._input_numbers)) != self._data_text:
            text = "shapes, dtypes or plain values that differ from seed to seed; let them depend on the case alone"
            raise ReferenceFailed(f"{GENERATE} at {self.name!r} makes {text}")
        return nests.placed(tensors, self._input_numbers, self._inputs, self._code.where)


def _accepted(comparison: Comparison, out: torch.Tensor, ref: torch.Tensor) -> Comparison:
    """An output that the problem's check accepts: what is left to be wrong is what nobody wrote, and NaN where the reference has none."""
    # A byte may hold the sentinel and be right within the check's own tolerance.
    unwritten = comparison.unwritten_count if out.dtype == torch.bool or out.dtype.itemsize > 2 else 0
    wrong = out.is_floating_point() and not bool(is_nan(ref).any())
    nan_count = int(is_nan(out).sum()) if wrong else 0
    counts = replace(comparison, mismatched_count=unwritten, unwritten_count=unwritten, nonfinite_count=nan_count)
    # Indices that differ and are right all the same have no error to speak of.
    return counts if out.is_floating_point() else replace(counts, max_absolute_error=0.0, max_relative_error=0.0)


def described(spec: wire.ProblemSpec, code: Code) -> wire.ProblemSpec:
    """The spec with inputs, outputs and templates, from running every case once."""
    needed: set[Occurrence] = set()
    runs = [_CaseRun(code, workload, f"{spec.digest}{index}", needed) for index, workload in enumerate(spec.workloads)]
    public = [case for case, workload in zip(runs, spec.workloads, strict=True) if not workload.hidden] or runs
    # As many slots of each kind as a case needs at most, in the order in which cases need them.
    inputs, outputs = nests.slots_of(case.inputs for case in public), nests.slots_of(case.outputs for case in public)
    if any(case.inputs.keys() - inputs.keys() or case.outputs.keys() - outputs.keys() for case in runs):
        text = "a hidden workload has tensors that no public one has, and a submission would see that there are such; add a public one"
        raise ReferenceFailed(text)
    drawn = [list(nests.in_slots(inputs, case.inputs).values()) for case in runs]
    returned = [_named("y", nests.in_slots(outputs, case.outputs).values()) for case in runs]
    around = [case.around([*inputs], [*outputs], needed) for case in runs]
    # Cases of the same shapes may differ in what is around them.
    twins = [drawn.index(shapes) for shapes in drawn]
    if marked := any(around[index] != around[twin] for index, twin in enumerate(twins)):
        drawn = [[*shapes, nests.mark(index)] for index, shapes in enumerate(drawn)]
    if (count := len(drawn[0])) + len(outputs) > TENSOR_LIMIT:
        raise ReferenceFailed(f"{count} tensors in data and {len(outputs)} in the output; {TENSOR_LIMIT} can be sent")
    workloads = []
    for workload, tensors, answers, (data, result, scratch) in zip(spec.workloads, drawn, returned, around, strict=True):
        mark = ["tensor", len(inputs)] if marked else ["value", None]
        behind = renumbered(result, range(count, count + len(outputs)))
        template = json.dumps(["tuple", [data, mark, behind]])
        arguments = {"case": json.loads(workload.arguments)["case"], "template": template, "scratch": scratch}
        workloads.append(replace(workload, axes=nests.axes(_named("x", tensors) | answers), arguments=json.dumps(arguments)))
    return replace(spec, inputs=nests.specs(_named("x", drawn[0])), outputs=nests.specs(returned[0]), workloads=tuple(workloads), axes=())


class _CaseRun:
    """A run of a case: the nodes of its data and result, the shapes of their tensors, and the inputs that a kernel may write to."""

    def __init__(self, code: Code, workload: wire.Workload, seed: str, needed: set[Occurrence]) -> None:
        """Run the case. needed: inputs that look like buffers and that the reference was seen to read; more of them are added."""
        name, key = workload.workload_id, hashlib.sha256(seed.encode()).hexdigest()[:32]
        inputs, self.data = code.inputs(json.loads(workload.arguments)["case"], key, name)
        build = pytree.builder(self.data, code.make_object)

        def run(arguments: Tensors) -> Any:
            return code.run(build(arguments), key, name)

        copies = [tensor.clone() for tensor in inputs]
        returned, self.result = code.flat(run(copies), f"{REFERENCE} at {name!r}")
        if not returned:
            raise ReferenceFailed(f"{REFERENCE} at {name!r} returns no tensor; return what is to be compared")
        for index, output in enumerate(returned):
            nests.sent_shape_of(output, f"tensor {index} of {REFERENCE} at {name!r}", DTYPES)
        outputs = [laid_out(tensor).clone() for tensor in returned]
        self.inputs, self.outputs = _occurrences(inputs), _occurrences(outputs)
        self.scratch = _scratch(run, inputs, copies, outputs, needed)

    def around(
        self, inputs: Sequence[Occurrence], outputs: Sequence[Occurrence], needed: set[Occurrence]
    ) -> tuple[list[Any], list[Any], dict[int, str]]:
        """Describe what the shapes of the inputs do not show, with the numbers of the slots. needed: inputs that some case reads."""
        places, numbers = [*self.inputs], [inputs.index(key) for key in self.inputs]
        scratch = {numbers[index]: kind for index, kind in self.scratch.items() if kind != UNUSED or places[index] not in needed}
        result = renumbered(self.result, [outputs.index(key) for key in self.outputs])
        return renumbered(self.data, numbers), result, scratch


def _occurrences(tensors: Sequence[torch.Tensor]) -> dict[Occurrence, nests.Shape]:
    """The shape of each tensor, by its kind and how many of that kind come before it."""
    counts, occurrences = Counter[Kind](), dict[Occurrence, nests.Shape]()
    for tensor in tensors:
        kind = (dtype_name(tensor), tensor.dim())
        occurrences[kind, counts[kind]] = nests.shape_of(tensor)
        counts[kind] += 1
    return occurrences


def _scratch(run: Callable[[Tensors], Any], inputs: Tensors, after: Tensors, outputs: Tensors, needed: set[Occurrence]) -> dict[int, str]:
    """Which inputs a kernel may write to: those that the reference writes to, and buffers for the output that it leaves alone. What is
    expected of a kernel comes from private copies, whatever it writes. after: the inputs as the reference left them."""

    def is_same_without(indices: Sequence[int], integer: int) -> bool:
        """Return whether the answer is the same with other values in these inputs."""
        altered = [
            filled(item, OTHER_VALUE if item.is_floating_point() else integer) if index in indices else item.clone()
            for index, item in enumerate(inputs)
        ]
        try:
            answer = [laid_out(item) for item in tensors_of(run(altered))]
        except ReferenceFailed:  # it does not take other values
            return False
        return len(answer) == len(outputs) and all(map(same_bytes, answer, outputs))

    written = [index for index, (tensor, before) in enumerate(zip(after, inputs, strict=True)) if not same_bytes(tensor, before)]
    scratch = dict.fromkeys(written, BLANK if written and is_same_without(written, OTHER_VALUE) else KEPT)
    places = [*_occurrences(inputs)]
    decided = {*written, *(index for index, place in enumerate(places) if place in needed)}
    looks = [index for index, tensor in enumerate(inputs) if index not in decided and _looks_like_buffer(tensor, outputs)]
    # An integer that is read may be an index, and the largest, which the generator left there, is none: 0 is.
    unused = looks if looks and is_same_without(looks, 0) else [index for index in looks if len(looks) > 1 and is_same_without([index], 0)]
    needed |= {places[index] for index in looks if index not in unused}
    return {**scratch, **dict.fromkeys(unused, UNUSED)}


def _looks_like_buffer(tensor: torch.Tensor, outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether the generator left it unwritten, or it is a float tensor of an output's shape and dtype."""
    if tensor.is_floating_point():
        return any(tensor.shape == out.shape and tensor.dtype == out.dtype for out in outputs) or bool(is_nan(tensor).all())
    largest = True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max
    return bool((tensor == largest).all())


def _named(letter: str, shapes: Iterable[nests.Shape]) -> nests.Shapes:
    return {f"{letter}{index}": shape for index, shape in enumerate(shapes)}


def laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor of the same bytes in the same order; what has gaps or overlaps is copied without."""
    return in_memory(tensor.detach()).contiguous()
