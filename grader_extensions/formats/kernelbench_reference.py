"""The kernelbench format's judge half: one file with `Model`, `get_inputs` and `get_init_inputs`.

The file is executed once, in a module of its own. A call of its model is first traced without memory, for shapes, sizes, and what forward
changes or draws. Then the model is made for good, on the CPU as a runner makes its own, so that the same seed gives the same weights.
`ModelNew` in Python is called with the inputs, as `Model` is; an entry in a compiled language gets the weights as further inputs.
"""

from __future__ import annotations

import inspect
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from grader_extensions.formats import nests, problem_code
from grader_extensions.formats.arguments import with_arguments
from grader_extensions.formats.elementwise import ElementwiseComparer
from grader_extensions.formats.nests import moved, permutations_of, strides_of, with_strides
from sandbox.judge.references import Reference, ReferenceFailed, ReferenceTooLarge, Task, Tensors, WeightCheck, blamed
from sandbox.judge.references.dispatch_mode import DispatchMode
from sandbox.judge.tolerance import memory_of
from sandbox.launch.constant_weights import Constant, ConstantWeights, constant_of, kind_of
from sandbox.protocol import wire
from sandbox.protocol.gate import TENSOR_LIMIT

_INPUTS, _ARGUMENTS, _MODEL = "get_inputs", "get_init_inputs", "Model"
_FOR_REAL = nullcontext()
# What one byte takes while it is judged: in two arenas, in the judge's copies, in the baseline's and the subject's own memory.
INPUT_FACTOR, OUTPUT_FACTOR, WEIGHT_FACTOR = 6, 10, 4
SMALLER = "make the file's sizes smaller (`grader-cli problems import --set NAME=VALUE`)"
_RUNNING = ("running_mean", "running_var")  # normalisation in train mode writes these, though not every schema declares it
_CALL_COUNTER = "num_batches_tracked"  # of normalisation, which no answer depends on
_PROBABILITIES = ("dropout_p", "dropout", "p")
_CGROUP_LIMIT, _MEMINFO = Path("/sys/fs/cgroup/memory.max"), Path("/proc/meminfo")  # which begins with MemTotal, proc_meminfo(5)
_OWN = ("_parameters", "_buffers", "_modules")  # of a module's attributes: compared as tensors
Making = AbstractContextManager[Any]
SCALARS = {bool: "bool", int: "int64", float: "float64"}
NAME_CHARS = 60
_EXACT_INTEGERS = 2**53  # of a double, by which scalars travel
# Of C++ and CUDA; and the last parameter of an entry.
_RESERVED = (
    "alignas alignof asm auto bool case catch char char8_t char16_t char32_t concept const consteval constexpr constinit const_cast "
    "co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit export extern float friend goto inline int "
    "long mutable namespace new noexcept nullptr operator private protected public register reinterpret_cast requires restrict short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local throw typedef typeid typename union "
    "unsigned using virtual void volatile wchar_t half stream"
)


def task(spec: wire.ProblemSpec, where: str) -> Task:
    """Execute the file, learn its shapes, and make its model. The entry is a model (`wire.Convention.MODEL`), or gets the weights too."""
    source = _ModelSource(spec, where)
    call = source.traced(spec, where)
    description = described(spec.digest, call, source.parameter_names())
    model, drawn = source.drawn_model()
    model = model.to(where)
    constants = [None if torch.is_tensor(tensor) else tensor for tensor in call.inputs]
    call = replace(call, inputs=[], outputs=[], weights={})  # they may have memory, and are not needed any more
    reference = _reference(model, call, constants)

    @cache  # made when it is first needed
    def wide_reference() -> Reference:
        return _reference(_moved(source.drawn_model()[0], torch.float64, where), call, constants)

    def wide(inputs: Tensors) -> Tensors:
        return problem_code.in_double(wide_reference(), inputs)

    weights = [] if spec.convention is wire.Convention.MODEL else _weights(model, description, where)
    return Task(
        spec=with_arguments(spec, description),
        reference=reference,
        reference64=wide,
        draw=lambda _, key: [*_drawn(source.inputs(key, where), description, constants), *weights],
        compare=ElementwiseComparer(allowed=spec.tolerance, wide=wide),
        state=_state(source, model, drawn) if spec.convention is wire.Convention.MODEL else b"",
        described=description,
        weights=tuple(_weight_checks(source, model, drawn, reference)),
    )


def describe(spec: wire.ProblemSpec, where: str) -> wire.Described:
    """Describe the arguments of the entry; of the model no more is made than that takes."""
    source = _ModelSource(spec, where)
    return described(spec.digest, source.traced(spec, where, only_described=True), source.parameter_names())


class _ModelSource:
    """The executed file, and what it makes: the same from the same seed or key, in every process."""

    def __init__(self, spec: wire.ProblemSpec, where: str) -> None:
        modules = problem_code.Modules({"file": spec.reference}, f"kernelbench_{spec.digest[:12]}", where)
        with problem_code.seeded(spec.digest, where), blamed("the file"):
            self.module = modules.load("file")
        problem_code.check_defined(self.module, "the file", (_MODEL, _INPUTS, _ARGUMENTS))
        arguments = json.loads(spec.workloads[0].arguments)
        self.dtype: torch.dtype = getattr(torch, arguments["dtype"])
        self.seed, self.keeps_weights = int(spec.digest[:8], 16), arguments.get("keep_weights", False)

    def traced(self, spec: wire.ProblemSpec, where: str, *, only_described: bool = False) -> TracedCall:
        """Call a model once: without memory, or for good where its code looks at values. Raises ReferenceFailed where it does not fit,
        draws random numbers or keeps state.

        only_described: it will not be judged here, so that it may be larger than this device's memory.
        """
        weight_factor = WEIGHT_FACTOR + INPUT_FACTOR * (spec.convention is not wire.Convention.MODEL)
        without_memory = FakeTensorMode(allow_non_fake_inputs=True)
        try:
            return _trace(self, spec.digest, where, without_memory, 0 if only_described else weight_factor)
        except ReferenceFailed as failure:
            if not isinstance(failure.__cause__, RuntimeError):
                raise
        return _trace(self, spec.digest, where, _Bounded(memory_bytes(where)), weight_factor)

    def arguments(self, making: Making = _FOR_REAL) -> list[Any]:
        """Return the arguments of Model."""
        with problem_code.seeded(f"arguments {self.seed}"), blamed(f"{_ARGUMENTS}()"), making:
            values = getattr(self.module, _ARGUMENTS)()
        if not isinstance(values, (list, tuple)):
            raise ReferenceFailed(f"{_ARGUMENTS}() returned a {type(values).__name__}; return a list")
        return list(values)

    def drawn_model(self, making: Making = _FOR_REAL) -> tuple[torch.nn.Module, dict[str, Constant]]:
        """A model as a runner makes it, on the CPU, then cast; and the constants in whose place it has drawn weights, by name: none where
        they are kept, or have no memory."""
        values = self.arguments(making)
        weights = self.constant_weights(_numbers(values))
        with problem_code.seeded(f"model {self.seed}"), blamed(f"{_MODEL}(*{_ARGUMENTS}())"), making:
            torch.manual_seed(self.seed)
            make = partial(getattr(self.module, _MODEL), *values)
            draws = making is _FOR_REAL and not self.keeps_weights
            model = weights.make(make) if draws else make()
            if not isinstance(model, torch.nn.Module):
                raise ReferenceFailed(f"{_MODEL} is not a torch.nn.Module; derive it from that")
            constants = weights.constants_of(model) if draws else {}
            return _moved(model, self.dtype), constants

    def constant_weights(self, arguments: frozenset[float] = frozenset()) -> ConstantWeights:
        """Return what draws weights in place of constants: the same values in every run."""
        return ConstantWeights(seed=f"weights {self.seed}", arguments=arguments)

    def inputs(self, key: str, where: str, making: Making = _FOR_REAL) -> list[Any]:
        """The inputs of a key: tensors, cast, with the strides that the file gave them, or numbers."""
        with problem_code.seeded(key, where), blamed(f"{_INPUTS}()"), making:
            values = problem_code.made_at(where, getattr(self.module, _INPUTS), f"{_INPUTS}()")
            if not isinstance(values, (list, tuple)):
                raise ReferenceFailed(f"{_INPUTS}() returned a {type(values).__name__}; return a list")
            return [moved(value, where, _cast(value, self.dtype)) if torch.is_tensor(value) else value for value in values]

    def parameter_names(self) -> list[str]:
        """Return forward's names of its inputs."""
        parameters = list(inspect.signature(getattr(self.module, _MODEL).forward).parameters.values())[1:]
        return [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


def _numbers(value: object) -> frozenset[float]:
    """The numbers in a nest of arguments, as a weight in single precision holds them. An integer 0 or 1 is rather a size or a switch."""
    if isinstance(value, float) or (isinstance(value, int) and 1 < abs(value) < 2**53):
        return frozenset((value, float(torch.tensor(value, dtype=torch.float32))))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return frozenset().union(*map(_numbers, inner))


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """Floating tensors only: a label or an index keeps its dtype."""
    return dtype if tensor.is_floating_point() else tensor.dtype


def _moved(model: torch.nn.Module, dtype: torch.dtype, where: str = "cpu") -> torch.nn.Module:
    """The model in another dtype or place, with the tensors that it keeps as plain attributes."""
    without_memory = any(isinstance(tensor, FakeTensor) for tensor in named_tensors(model.requires_grad_(False)).values())
    if not without_memory:
        model.to(where, dtype)
    for module in model.modules():
        for name, value in vars(module).items():
            if torch.is_tensor(value):
                vars(module)[name] = value.detach().to(where, _cast(value, dtype))
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)] if without_memory else []:
            if tensor.dtype is not _cast(tensor, dtype):
                converted = tensor.detach().to(dtype)
                setattr(module, name, torch.nn.Parameter(converted, False) if isinstance(tensor, torch.nn.Parameter) else converted)
    return model


def _drawn(values: list[Any], description: wire.Described, constants: list[Any]) -> Tensors:
    """A key's inputs as the list that goes to a runner; ReferenceFailed where they are not as they were when the task was made."""
    declared = nests.shapes_at(description.inputs, description.axes)
    tensors = [value if torch.is_tensor(value) else torch.tensor(value, dtype=getattr(torch, SCALARS[type(value)])) for value in values]
    shapes = tuple(map(nests.shape_of, tensors))
    if [None if torch.is_tensor(value) else value for value in values] != constants:
        raise ReferenceFailed(f"{_INPUTS}() made other numbers than before; give a tensor where a value differs from call to call")
    if shapes != declared:
        raise ReferenceFailed(f"{_INPUTS}() made {shapes}, and {declared} before; let only the values differ from call to call")
    laid = [with_strides(value, description.strides.get(spec.name, ())) for value, spec in zip(tensors, description.inputs, strict=True)]
    return [value if value.dim() else value.cpu() for value in laid]


def _weights(model: torch.nn.Module, description: wire.Described, where: str) -> Tensors:
    """Return the tensors of the model as inputs on the device: copies, for a call of the model may change its own. The same in every
    trial."""
    if description.obstacle:
        raise ReferenceFailed(f"its model can't be given to a compiled entry: {description.obstacle}; submit a Python module")
    copies = [tensor.detach().to(where).clone(memory_format=torch.contiguous_format) for tensor in kept_tensors(model).values()]
    return [tensor if tensor.dim() else tensor.cpu() for tensor in copies]


def _reference(model: torch.nn.Module, traced: TracedCall, constants: list[Any]) -> Reference:
    """The model as a function that leaves nothing behind."""
    tensors = named_tensors(model)
    live = [tensors[name] for name in traced.written]
    copies = [tensor.clone() for tensor in live]
    rebound = [(model.get_submodule(name), key) for name, key in traced.rebound]
    before = [(module, key, vars(module).get(key, _ABSENT)) for module, key in rebound]

    @problem_code.with_own_code
    def call(inputs: Tensors) -> Tensors:
        if live:
            torch._foreach_copy_(live, copies)
        for module, key, value in before:
            if value is _ABSENT:
                vars(module).pop(key, None)
            else:
                vars(module)[key] = value
        values = inputs[: len(constants)]  # weights that come after them are the model's own
        result = model(*(item if constant is None else constant for item, constant in zip(values, constants, strict=True)))
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return call


_ABSENT = object()


def _weight_checks(
    source: _ModelSource, model: torch.nn.Module, drawn: Mapping[str, Constant], reference: Reference
) -> Iterator[WeightCheck]:
    """Yield every weight that a model starts with as one constant. What is drawn is tried as that constant. What stays constant is tried
    drawn; a buffer of one element is a number of the problem's code."""
    weights, parameters = source.constant_weights(), {name for name, _ in model.named_parameters()}
    for name, tensor in kept_tensors(model).items():
        constant = constant_of(kind_of(name, tensor), tensor)
        if name in drawn:
            replacement = partial(torch.full_like, tensor, drawn[name].value)
        elif constant is not None and (name in parameters or tensor.numel() > 1):
            replacement = partial(weights.draw, constant, tensor)
        else:
            continue
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:NAME_CHARS]
        yield WeightCheck(name=plain, drawn=name in drawn, changed=partial(_with_weight, tensor, replacement, reference))


def _with_weight(tensor: torch.Tensor, draw: Callable[[], torch.Tensor], reference: Reference, inputs: Tensors) -> Tensors:
    original = tensor.clone()
    try:
        tensor.copy_(draw())
        return [output.clone() for output in reference(inputs)]
    finally:
        tensor.copy_(original)


def _state(source: _ModelSource, model: torch.nn.Module, drawn: Mapping[str, Constant]) -> bytes:
    """Return the state of which the runner makes its ModelNew. dtype: what it has to be cast to, as the weights here are."""
    arguments = source.arguments()
    problem_code.flatten(arguments, f"{_ARGUMENTS}()")
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items() if torch.is_tensor(value)}
    file = io.BytesIO()
    torch.save(
        {
            "arguments": arguments,
            "weights": weights or None,
            "seed": source.seed,
            "drawn": {"seed": source.constant_weights().seed, "constants": sorted(set(map(tuple, drawn.values())))} if drawn else None,
            "train": model.training,
            "dtype": str(source.dtype).removeprefix("torch."),
        },
        file,
    )
    return file.getvalue()


def described(digest: str, call: TracedCall, parameters: list[str]) -> wire.Described:
    """The arguments of a problem. parameters: what forward calls its inputs. ReferenceFailed where no entry could be given them."""
    names = _Names()
    called = [*zip([*parameters, *(f"x{index}" for index in range(len(parameters), len(call.inputs)))], call.inputs, strict=False)]
    for name, value in called:
        if torch.is_tensor(value) and value.dim() == 0:  # what has no axes travels as a number
            sentence = f"input {name!r} is a tensor without axes, which a kernel would get as a number"
            raise ReferenceFailed(f"{sentence}; give it an axis, as torch.rand(1) has, or return a number")
        if isinstance(value, int) and abs(value) > _EXACT_INTEGERS:
            raise ReferenceFailed(f"input {name!r} is {value}; integers up to 2 ** 53 can be given")
    inputs = tuple(names.tensor(name, value) for name, value in called)
    several = len(call.outputs) > 1
    outputs = tuple(names.tensor(f"output{index}" if several else "output", value) for index, value in enumerate(call.outputs))
    if len(inputs) + len(outputs) > TENSOR_LIMIT:
        text = f"{len(inputs)} inputs and {len(outputs)} outputs; {TENSOR_LIMIT} can be sent"
        raise ReferenceFailed(f"{text}: put several into one tensor")
    weights, obstacle = tuple[wire.TensorSpec, ...](), ""
    if len(inputs) + len(outputs) + len(call.weights) > TENSOR_LIMIT:
        obstacle = f"it has {len(call.weights)} weights and buffers, and an entry can take {TENSOR_LIMIT} tensors"
    else:
        try:
            weights = tuple(names.tensor(name, value) for name, value in call.weights.items())
        except ReferenceFailed as failure:
            obstacle = f"of its weights and buffers {failure}"
    strides = strides_of({spec.name: value for spec, value in zip(inputs, call.inputs, strict=True)})
    strides |= permutations_of({spec.name: value for spec, value in zip(outputs, call.outputs, strict=True)})
    return wire.Described(
        digest=digest, inputs=inputs, outputs=outputs, weights=weights, axes=names.axes, obstacle=obstacle, strides=strides
    )


class _Names:
    """Names for tensors and their sizes that are different from each other, and that C++ takes."""

    def __init__(self) -> None:
        self.axes: dict[str, int] = {}
        self._taken = set(_RESERVED.split())

    def tensor(self, wanted: str, value: Any) -> wire.TensorSpec:
        """The next tensor or number. Its sizes are axes of its own."""
        dtype, shape = nests.sent_shape_of(value, repr(wanted)) if torch.is_tensor(value) else (SCALARS[type(value)], ())
        plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted)[:NAME_CHARS]
        base = plain if re.match(r"[A-Za-z_]", plain) else f"p{plain}"
        for name in itertools.chain([base], (f"{base}{number}" for number in itertools.count(2))):
            axes = nests.axes({name: (dtype, shape)})
            if self._taken.isdisjoint({name, *axes}):
                break
        self._taken |= {name, *axes}
        self.axes |= axes
        return wire.TensorSpec(name=name, dtype=dtype, shape=tuple(axes))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """Inputs, outputs and weights as they would be, and what forward leaves behind in its model: tensors and attributes, by name."""

    inputs: list[Any]
    outputs: Tensors
    weights: dict[str, torch.Tensor]
    written: tuple[str, ...]
    rebound: tuple[tuple[str, str], ...]  # a submodule's name and the attribute's


def _trace(source: _ModelSource, key: str, where: str, making: Making, weight_factor: int) -> TracedCall:
    """Trace a call. ReferenceTooLarge where a problem does not fit, as far as sizes are known. weight_factor: what one byte of the weights
    takes while it is judged; 0: nothing is checked."""
    real = isinstance(making, _Bounded)
    values = source.inputs(key, where if real else "cpu", making)
    for index, value in enumerate(values):
        if not torch.is_tensor(value) and not isinstance(value, (bool, int, float)):
            raise ReferenceFailed(f"input {index} is a {type(value).__name__}; tensors and numbers can be given")

    def require_memory(weight_bytes: int, output_bytes: int) -> None:
        input_bytes = _size(values)
        needed = INPUT_FACTOR * input_bytes + weight_factor * weight_bytes + OUTPUT_FACTOR * output_bytes
        if weight_factor and needed > (there := memory_bytes(where)):
            text = (
                f"inputs of {input_bytes / 1e9:.3g} GB, weights of {weight_bytes / 1e9:.3g} GB and outputs of {output_bytes / 1e9:.3g} GB "
                f"take {needed / 1e9:.3g} GB while they are judged, and here are {there / 1e9:.3g} GB; {SMALLER}"
            )
            raise ReferenceTooLarge(text)

    require_memory(0, 0)
    traced_model = source.drawn_model(making)[0]
    traced_model = traced_model.to(where) if real else traced_model
    weight_bytes = _size([*traced_model.parameters(), *traced_model.buffers()])
    require_memory(weight_bytes, 0)
    weights, watch = kept_tensors(traced_model), _TraceMode(traced_model)
    with blamed("forward"), making, watch:
        outputs = problem_code.as_tensors(traced_model(*values), "forward")
    written, rebound = watch.changes()
    require_memory(weight_bytes, _size(outputs))
    return TracedCall(inputs=values, outputs=outputs, weights=weights, written=written, rebound=rebound)


class _Bounded(DispatchMode):
    """Refuses to make a tensor that does not fit into memory: a host may hand out more than it has, and end the process later."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Look at the operation, then do it."""
        if func._schema.arguments and func._schema.arguments[0].name == "size" and args and not func.is_view:
            count = math.prod(int(argument) for argument in args[0])
            if count * ((kwargs or {}).get("dtype") or torch.get_default_dtype()).itemsize > self._limit_bytes:
                raise ReferenceTooLarge(f"a tensor of shape {list(args[0])} does not fit into memory; {SMALLER}")
        return func(*args, **(kwargs or {}))


class _TraceMode(DispatchMode):
    """Looks at every operation of a call: refuses what draws random numbers, and finds what it changes in a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._model, self._running = model, set[int]()
        self._versions = {name: item._version for name, item in named_tensors(model).items()}
        self._attributes = {name: _attributes(module) for name, module in model.named_modules()}
        tensors = [value for fields in self._attributes.values() for value in fields.values() if torch.is_tensor(value)]
        self._attribute_versions = {id(tensor): tensor._version for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Look at the operation, then do it."""
        declared = func._schema.arguments  # a default is not among args
        named = {parameter.name: parameter.default_value for parameter in declared} | dict(
            zip((parameter.name for parameter in declared), args, strict=False)
        )
        named |= kwargs or {}
        probabilities = [named.get(name) for name in _PROBABILITIES]
        if torch.Tag.nondeterministic_seeded in func.tags and not any(isinstance(p, (int, float)) and p == 0 for p in probabilities):
            text = (
                f"forward draws random numbers ({func}), anew in every call, so no kernel can give the same answer; set the probability of "
                "dropout to 0, call self.eval() at the end of __init__, or make what is random an input"
            )
            raise ReferenceFailed(text)
        if named.get("training", True):
            self._running |= {id(named[name]) for name in _RUNNING if torch.is_tensor(named.get(name))}
        return func(*args, **(kwargs or {}))

    def changes(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return the tensors and the attributes that the call changed. A tensor that a later call would read is no change but a fault:
        answers would depend on earlier calls."""
        tensors = named_tensors(self._model).items()
        written = tuple(name for name, item in tensors if id(item) in self._running or item._version != self._versions.get(name))
        rebound = []
        for name, module in self._model.named_modules():
            before, after = self._attributes.get(name, {}), _attributes(module)
            for key in sorted(before.keys() | after.keys()):
                old = before.get(key)
                moved = key not in before or key not in after or old is not after[key]
                if torch.is_tensor(old) and (moved or old._version != self._attribute_versions[id(old)]):
                    raise ReferenceFailed(
                        f"forward changes self.{key}, a tensor that it had before: the answer would depend on the calls before; "
                        "use a local variable in forward, or make it an input"
                    )
                if moved:
                    rebound.append((name, key))
        return written, tuple(rebound)


def named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def kept_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that a model keeps and an answer can depend on, by name: its state, other buffers, and tensors that are plain
    attributes."""
    attributes = [
        (f"{name}.{key}" if name else key, value) for name, module in model.named_modules() for key, value in _attributes(module).items()
    ]
    tensors: dict[str, torch.Tensor] = {}
    for name, value in (*model.state_dict(keep_vars=True).items(), *model.named_buffers(), *attributes):
        if torch.is_tensor(value) and name.rpartition(".")[2] != _CALL_COUNTER:
            tensors.setdefault(name, value)
    return tensors


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OWN}


def _size(values: list[Any]) -> int:
    return sum(memory_of(value).numel() * value.element_size() for value in values if torch.is_tensor(value))


def memory_bytes(where: str) -> int:
    """How much memory the device has; of the host what this process may use of it."""
    if where.startswith("cuda"):
        return int(torch.cuda.get_device_properties(where).total_memory)
    # Not os.sysconf: glibc asks sysinfo, which boxes refuse, and then answers with what was on the stack.
    there = 1024 * int(_MEMINFO.read_text("utf-8").split()[1])
    limit = _CGROUP_LIMIT.read_text("utf-8").strip() if _CGROUP_LIMIT.is_file() else ""
    return min(there, int(limit)) if limit.isdecimal() else there
