"""Executes a reference_kernels problem's code: its functions, and the classes of the objects in its data."""

from __future__ import annotations

import inspect
import json
import os
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from sandbox.judge import references
from sandbox.judge.references import nests, sources
from sandbox.launch import objects
from sandbox.protocol import pytree, wire

NAME = "reference_kernels"
GENERATE, REFERENCE, CHECK, SEED = "generate_input", "ref_kernel", "check_implementation", "seed"
NO_FILL = "fill_empty_deterministic_"  # what torch says of a dtype that it can't fill fresh memory of, such as float4
NOT_EMULATED = ("_scaled_mm", "Float8", "Float4", "float8", "float4")
Both = Callable[[list[torch.Tensor]], tuple[Any, Any]]  # of all tensors: the data, and the output


@dataclass(frozen=True, kw_only=True)
class Code:
    """The functions of reference.py, and the files' modules."""

    where: str
    modules: sources.Modules
    generate: Callable[..., Any]
    reference: Callable[[Any], Any]
    check: Callable[[Any, Any], Any]

    @classmethod
    def of(cls, spec: wire.ProblemSpec, where: str) -> Code:
        """Execute reference.py, and of the other files those that it imports."""
        # Their deterministic contexts take it for set: without it torch refuses cuBLAS there. It is torch's own default on Hopper.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        texts = {name.removesuffix(".py"): text for name, text in json.loads(spec.reference).items()}
        modules = sources.Modules(texts, f"{NAME}_{spec.digest[:12]}", where)
        with sources.contained("reference.py", where), sources.seeded(spec.digest, where):
            module = modules.load("reference")
        for name in (GENERATE, REFERENCE, CHECK):
            if not callable(getattr(module, name, None)):
                raise references.ReferenceFailed(f"reference.py defines no function {name!r}; define it")
        return cls(
            where=where,
            modules=modules,
            generate=getattr(module, GENERATE),
            reference=getattr(module, REFERENCE),
            check=getattr(module, CHECK),
        )

    def data(self, case: dict[str, Any], key: str) -> Any:
        """What generate_input makes of a case and a key. Memory that it leaves unwritten is NaN, so that it shows if a kernel does too."""
        try:
            return self._data(case, key, fill=True)
        except references.ReferenceFailed as failure:
            if NO_FILL not in str(failure):
                raise
            return self._data(case, key, fill=False)

    def _data(self, case: dict[str, Any], key: str, *, fill: bool) -> Any:
        parameters = inspect.signature(self.generate).parameters.values()
        seeded = any(one.name == SEED or one.kind is one.VAR_KEYWORD for one in parameters)
        own = {SEED: int(key[:8], 16) >> 1} if seeded else {}  # 31 bits, which every generator takes
        with sources.contained(GENERATE, self.where), sources.seeded(key, self.where), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.use_deterministic_algorithms(fill, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
            return self.generate(**{**case, **own})

    def run(self, data: Any, key: str, name: str) -> Any:
        """What the reference returns for data."""
        try:
            with sources.contained(f"{REFERENCE} at {name!r}", self.where), sources.seeded(key, self.where):
                return self.reference(data)
        except references.ReferenceFailed as failure:
            if self.where != "cpu" or not any(word in f"{failure} {failure.__cause__}" for word in NOT_EMULATED):
                raise
            text = "it needs an operation on float8 or float4 that the emulated device does not have; grade this problem on a GPU"
            raise references.ReferenceFailed(f"{failure}; {text}") from failure

    def flat(self, value: object, what: str) -> tuple[list[torch.Tensor], str]:
        """The tensors of a nest and the text around them; what made it is blamed for what can't be sent."""
        try:
            return pytree.flatten(
                value, torch.is_tensor, dimensions=nests.dimensions, parts=lambda one: nests.object_parts(one, self._class_name)
            )
        except pytree.NestInvalid as invalid:
            raise references.ReferenceFailed(f"what {what} makes can't be sent to a kernel: {invalid}") from invalid

    def make_object(self, kind: str, name: str, fields: dict[str, Any]) -> Any:
        """An object of data, of the class that the problem's code gave it."""
        file, _, path = name.partition(".")
        found = _attribute(self.modules.load(file), path) if self.modules.has(file) else None
        return objects.make_object(kind, name, fields, found if isinstance(found, type) else objects.torch_class(name))

    def _class_name(self, of: type) -> str | None:
        """The name of a class at the top level of one of the files, or of torch.nn; None for any other."""
        if objects.torch_class(full := f"{of.__module__}.{of.__qualname__}") is of:
            return full
        file = self.modules.file_of(of.__module__)
        known = file is not None and _attribute(self.modules.load(file), of.__qualname__) is of
        return f"{file}.{of.__qualname__}" if known else None

    def accepts(self, make: Both, inputs: list[torch.Tensor], outputs: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
        """Whether the problem's own check does. It is the problem's fault if that does not accept the reference's output either."""
        if self._accepts(make, inputs, outputs):
            return True
        try:
            sound = self._accepts(make, inputs, expected, certain=True)
        except references.ReferenceFailed as failure:
            raise references.ReferenceFailed(f"{failure}, given the output of {REFERENCE}; fix {CHECK}") from failure
        if not sound:
            raise references.ReferenceFailed(f"{CHECK} does not accept what {REFERENCE} returns for the same data; fix one of them")
        return False

    def _accepts(self, make: Both, inputs: list[torch.Tensor], outputs: list[torch.Tensor], certain: bool = False) -> bool:
        copies = [one.clone() for one in (*inputs, *outputs)]
        try:
            with sources.contained(CHECK, self.where), sources.seeded(CHECK, self.where):
                message = self.check(*make(copies))
        except references.ReferenceFailed:
            if certain:
                raise
            return False  # a check that stumbles over an answer has not accepted it
        verdict = message[0] if isinstance(message, (tuple, list)) and len(message) == 2 else message
        if isinstance(verdict, str):
            return not verdict
        if isinstance(verdict, (bool, numpy.bool_, torch.Tensor)):
            return bool(verdict)
        text = f"{CHECK} returned a {type(message).__name__}; return (right, message), or a message that is empty if right"
        raise references.ReferenceFailed(text)


def _attribute(module: types.ModuleType, path: str) -> object:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
