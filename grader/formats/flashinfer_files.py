"""Where the files of a flashinfer problem lie: in a directory as SOL-ExecBench has it, or in a trace set as FlashInfer has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFINITION, WORKLOAD = "definition.json", "workload.jsonl"
DEFINITIONS, WORKLOADS = "definitions", "workloads"
LAYOUT = (
    f"a directory with {DEFINITION} and {WORKLOAD}, or a trace set: "
    f"{DEFINITIONS}/NAME.json or {DEFINITIONS}/OP/NAME.json, and NAME.jsonl below {WORKLOADS}/ next to it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFiles:
    """A definition and what belongs to it. root: what paths of safetensors are relative to. root_of_set: outside of which nothing is read.

    sol: whether the layout, and with it the rule of comparison, is SOL's.
    """

    definition: Path
    root: Path
    sol: bool
    root_of_set: Path

    def workloads(self, name: str) -> Path:
        """The file of the workloads of the definition called name: in SOL's directory, else in the same place below `workloads/`, or
        anywhere below it. The first of these where there is none."""
        if self.sol:
            return self.root / WORKLOAD
        top = self.root / WORKLOADS
        same_place = top / self.definition.relative_to(self.root / DEFINITIONS).with_suffix(".jsonl")
        if same_place.is_file():
            return same_place
        wanted = {same_place.name, f"{name}.jsonl"}
        return next((path for path in sorted(top.rglob("*.jsonl")) if path.name in wanted), same_place)


def files_of(path: Path) -> DefinitionFiles | None:
    """The files of the problem at path: a directory of SOL's or the definition in it, or a definition of a trace set."""
    directory = path.parent if path.name == DEFINITION else path
    if (directory / DEFINITION).is_file():
        return DefinitionFiles(definition=directory / DEFINITION, root=directory, sol=True, root_of_set=directory)
    if path.suffix != ".json" or not path.is_file():
        return None
    root = next((one.parent for one in path.parents if one.name == DEFINITIONS and is_trace_set(one.parent)), None)
    return None if root is None else DefinitionFiles(definition=path, root=root, sol=False, root_of_set=root)


def is_trace_set(path: Path) -> bool:
    """Whether a trace set lies at path: other directories called `definitions` hold other things."""
    return (path / DEFINITIONS).is_dir() and (path / WORKLOADS).is_dir()


def definitions_of(path: Path) -> tuple[Path, ...]:
    """The definitions of the trace set at path, at any depth; () where it is none."""
    return tuple(sorted((path / DEFINITIONS).rglob("*.json"))) if is_trace_set(path) else ()
