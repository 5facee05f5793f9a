"""The light headers that are made for a job: what is in them, and when there are none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import gcc
from grader_extensions.fast_torch_build import fast_headers
from sandbox.compilers.headers import Headers, torch_include_dirs

SOURCE = """
#include <torch/extension.h>
// matmul is only spoken of, as is "softmax"
torch::Tensor forward(torch::Tensor x) { TORCH_CHECK(x.dim() == 2, "tril"); return torch::zeros_like(x).cumsum(0); }
"""
INCLUDE = Path(torch_include_dirs()[0])


def light_headers(tmp_path: Path, source: str, *, emulated: bool = True) -> tuple[Headers, str]:
    headers = fast_headers.prepare({"kernel.cu": source}, tmp_path, emulated=emulated)
    assert isinstance(headers, Headers), headers
    return headers, (tmp_path / "grader/named.h").read_text()


def test_an_operator_is_there_if_the_source_names_it(tmp_path: Path) -> None:
    """As a function, as a method, and as torch's factory."""
    _, named = light_headers(tmp_path, SOURCE)
    assert "#include <ATen/ops/zeros_like.h>" in named
    assert "Tensor::cumsum(" in named
    assert "inline at::Tensor zeros_like(" in named


def test_names_in_macros_count(tmp_path: Path) -> None:
    """A method that only a macro's body calls, and one whose name a macro glues together."""
    _, named = light_headers(tmp_path, "#define CALL(op) x.op##_()\n#define OTHER x.sigmoid()\nvoid f() { CALL(sqrt); OTHER; }\n")
    assert "Tensor::sqrt_(" in named
    assert "Tensor::sigmoid(" in named


def test_a_source_that_asks_for_a_macro_of_torch_gets_torchs_headers(tmp_path: Path) -> None:
    """Light headers can't know what torch's would have answered."""
    reason = fast_headers.prepare({"kernel.cu": "#ifdef AT_MKLDNN_ENABLED\n#endif\n"}, tmp_path, emulated=True)
    assert reason == "the source asks whether there is a macro AT_MKLDNN_ENABLED"


@pytest.mark.parametrize(
    "test", ["#ifndef CHECK_INPUT\n#define CHECK_INPUT(x)\n#endif", "#ifdef __CUDA_ARCH__\n#endif", "#if defined(NDEBUG)\n#endif"]
)
def test_a_source_may_ask_for_its_own_macros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    """And for those that mean the same with both headers. Of torch's there is a list, which `make headers` makes."""
    (tmp_path / gcc.MACROS_FILE).write_text("AT_MKLDNN_ENABLED\n")
    monkeypatch.setattr(gcc, "precompiled_directory", lambda: tmp_path)
    light_headers(tmp_path, f"{test}\n")


def test_every_method_of_torch_is_known_with_its_operators_header() -> None:
    """The shape of the header that torch generates is the one that is read here."""
    text = (INCLUDE / "ATen/core/TensorBody.h").read_text()
    methods = fast_headers._definitions(text, method=True)
    written = set(re.findall(r"^inline .*? Tensor::(\w+)\(", text, re.MULTILINE))
    assert len(methods) > 400
    assert written == set(methods)
    for method in methods:
        if method != "expect_contiguous":
            assert fast_headers._operator_of(INCLUDE / "ATen/ops", method), method


def test_every_factory_of_torch_is_known() -> None:
    """A factory that were missed would be ATen's function of the same name, without the gradient's guard."""
    text = (INCLUDE / "torch/csrc/autograd/generated/variable_factories.h").read_text()
    definitions = "".join(fast_headers._definitions(text).values())
    assert text.count("\ninline ") == definitions.count("inline ")


def test_a_method_that_is_called_but_not_named_is_noticed(tmp_path: Path) -> None:
    """An artifact that calls what the light headers left out would only fail when it is loaded."""
    source = tmp_path / "calls.cpp"
    source.write_text("namespace at { struct Tensor { void relu_() const; }; }\nvoid f(const at::Tensor& t) { t.relu_(); }\n")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "calls.so")], check=True)
    artifact = (tmp_path / "calls.so").read_bytes()
    assert fast_headers._missing(artifact, ("relu_", "relu")) == "Tensor::relu_ is called, but not by name"
    assert fast_headers._missing(artifact, ("relu", "elu_")) is None


@pytest.mark.slow
def test_every_operator_of_torch_compiles(tmp_path: Path) -> None:
    """A single source names them all, with light headers only."""
    operators = INCLUDE / "ATen/ops"
    names = sorted(path.stem for path in operators.glob("*.h") if (operators / f"{path.stem}_ops.h").exists())
    assert len(names) > 1000
    words = "\n".join(
        f"struct use_{number} {{ int {name}; }};" for number, name in enumerate(names) if name not in {"and", "or", "xor", "not"}
    )
    headers, _ = light_headers(tmp_path, words)
    source = tmp_path / "all.cpp"
    source.write_text("#include <grader/torch.h>\nint main() { return 0; }\n")
    flags = [*(f"-D{name}" for name in headers.defines), *(f"-isystem{path}" for path in headers.include_dirs)]
    ran = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", *flags, str(source)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]
