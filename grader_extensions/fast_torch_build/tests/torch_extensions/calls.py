"""The program that calls extensions; usage: `python -m grader_extensions.fast_torch_build.tests.torch_extensions.calls PLAN OUT [DEVICE]`.

PLAN holds [name, artifact, module] of each extension. Each gets a process of its own, forked after torch was imported, and leaves
OUT/name.json: what every call returned or raised, to the last bit, and what became of its arguments.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch

from grader_extensions.fast_torch_build.tests.torch_extensions.corpus import Argument, Call, Drawn, load

RANGES = {"bool": (0, 2), "uint8": (0, 10)}


def main() -> None:
    """Call everything of every extension of the plan."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    plan, out, device = Path(sys.argv[1]), Path(sys.argv[2]), (sys.argv[3:] or ["cpu"])[0]
    for name, artifact, module in json.loads(plan.read_text()):
        child = os.fork()
        if child == 0:
            os._exit(_child(name, artifact, module, out / f"{name}.json", device))
        _, status = os.waitpid(child, 0)
        if status != 0:
            (out / f"{name}.json").write_text(json.dumps({"died": os.waitstatus_to_exitcode(status)}))


def _child(name: str, artifact: str, module: str, out: Path, device: str) -> int:
    try:
        loaded = _import(artifact, module)
        functions = sorted(name for name in dir(loaded) if not name.startswith("__"))
        outcomes = {call.text: _outcome(loaded, call, seed, device) for seed, call in enumerate(load(name).calls)}
        out.write_text(json.dumps({"functions": functions, "outcomes": outcomes}))
    except ImportError as error:
        out.write_text(json.dumps({"import": str(error)}))
    except Exception:  # noqa: BLE001  forked: nobody else would say
        traceback.print_exc()
        return 1
    return 0


def _import(artifact: str, name: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(name, artifact)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _outcome(module: Any, call: Call, seed: int, device: str) -> dict[str, Any]:
    torch.manual_seed(seed)
    arguments = [_value(argument, device) for argument in call.arguments]
    keywords = {name: _value(argument, device) for name, argument in call.keywords.items()}
    outcome: dict[str, Any]
    try:
        outcome = {"returned": _plain(getattr(module, call.function)(*arguments, **keywords))}
    except Exception as error:  # noqa: BLE001  any type is an answer
        outcome = {"raised": type(error).__name__, "message": str(error)}
    return {**outcome, "arguments": _plain([*arguments, *keywords.values()])}


def _value(argument: Argument, device: str) -> Any:
    match argument:
        case Drawn():
            return _tensor(argument).to(device)
        case list():
            return [_value(element, device) for element in argument]
        case _:
            return argument


def _tensor(drawn: Drawn) -> torch.Tensor:
    dtype = getattr(torch, drawn.dtype)
    if dtype.is_floating_point:
        of, factor = (torch.randn, 1) if drawn.below is None else (torch.rand, drawn.below)
        values = of(drawn.shape, dtype=torch.float64) * factor
    elif drawn.below is not None:
        values = torch.randint(0, drawn.below, drawn.shape)
    else:
        values = torch.randint(*RANGES.get(drawn.dtype, (-9, 10)), drawn.shape)
    values = values.to(dtype)
    return values.t() if drawn.transposed else values


def _plain(value: Any) -> Any:
    """The value as JSON that differs where a bit differs."""
    match value:
        case torch.Tensor():
            bits = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()
            return ["tensor", str(value.dtype), list(value.shape), list(value.stride()), value.requires_grad, bits]
        case float():
            return ["float", value.hex()]
        case list() | tuple():
            return [type(value).__name__, *map(_plain, value)]
        case dict():
            return ["dict", *([_plain(key), _plain(element)] for key, element in value.items())]
    return [type(value).__name__, repr(value)]


if __name__ == "__main__":
    main()
