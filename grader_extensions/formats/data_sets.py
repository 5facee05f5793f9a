"""Data sets on disk, with a problem in each row: as `datasets.save_to_disk` writes them, or parquet or JSON Lines.  Executes nothing.

A row becomes a file of the format kernelbench. KernelBench's own columns are read, and those that KernelBook has in their place.
"""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from grader.cli import extras
from grader.errors import ProblemInvalid
from grader.formats import formats
from grader_extensions.formats import kernelbench
from grader_extensions.formats.problem_sets import Imported, candidates

SUFFIXES = (".arrow", ".jsonl", ".parquet")
COLUMNS = (("code", "python_code"), ("problem_id", "uuid"), ("name", "entry_point"), ("level",))  # each: what the first that is there holds
_BATCH_ROWS, _SLUG_CHARS = 256, 80
# KernelBook's classes have names of their own, and its get_init_inputs returns [arguments, options].
_MODEL = """

class Model({name}):
    def __init__(self, arguments, options):
        super().__init__(*arguments, **options)
"""


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, Sequence[Imported]]]:
    """Yield the directory of a file for each row, `TABLE/row_NUMBER/NAME.py`, and the rows that are none; path itself if that is no
    data set, or a directory with problems of other formats."""
    try:
        tables = dict(_tables(path))
    except (ValueError, KeyError, TypeError) as error:
        raise ProblemInvalid(str(path), f"has a state.json that `datasets` did not write: {error!r}; save the data set again") from None
    if not tables or (path.is_dir() and any(candidates(path, formats()))):
        yield path, ()
        return
    with tempfile.TemporaryDirectory(prefix="grader-rows-") as directory:
        yield Path(directory), [refusal for name, files in tables.items() for refusal in _unpack(files, Path(directory, name))]


def located(entry: Imported, directory: Path, path: Path) -> Imported:
    """Name a row by the data set at path, and no longer by the directory that it was unpacked to."""
    top = path if path.is_dir() else path.parent
    same_as = entry.same_as and top / entry.same_as.relative_to(directory)
    reason = entry.reason.replace(str(directory), str(top))
    return replace(entry, path=top / entry.path.relative_to(directory), same_as=same_as, reason=reason)


def _tables(path: Path) -> Iterator[tuple[str, Sequence[Path]]]:
    """Yield tables with their files in order. JSON Lines only if the file is named itself: other formats have such files, too."""
    if path.is_file() and path.suffix in SUFFIXES:
        yield path.name, [path]
    for below in sorted(path.rglob("*")) if path.is_dir() else ():
        if below.suffix == ".parquet":
            yield str(below.relative_to(path)), [below]
        elif below.name == "state.json" and below.with_name("dataset_info.json").exists():
            shards = json.loads(below.read_bytes())["_data_files"]  # not all that are there: `datasets` keeps caches beside them
            yield str(below.parent.relative_to(path)), [below.with_name(Path(shard["filename"]).name) for shard in shards]


def _unpack(files: Sequence[Path], directory: Path) -> Iterator[Imported]:
    """Write the rows of a table to files, and yield those that can't be; as in `datasets`, the first is row 0."""
    number = -1
    try:
        for number, row in enumerate(chain.from_iterable(map(_rows, files))):
            place = directory / f"row_{number}"
            try:
                file, text = _problem_file(row, place)
                content = text.encode()
                if not kernelbench.is_meant(content[: kernelbench.SOURCE_LIMIT_BYTES]):
                    raise ValueError(f"its code is not {kernelbench.LAYOUT}")
                file.parent.mkdir(parents=True)
                file.write_bytes(content)  # nothing of a row that is refused
            except (ValueError, RecursionError) as error:  # of JSON, too
                yield Imported(path=place, reason=f"is no problem: {error}")
    except (OSError, ValueError, NotImplementedError) as error:  # of pyarrow too
        yield Imported(path=directory, reason=f"can't be read after row {number}: {error}" if number >= 0 else f"can't be read: {error}")


def _rows(file: Path) -> Iterator[object]:
    if file.suffix == ".jsonl":
        with file.open("rb") as lines:
            yield from (line for line in lines if line.strip())
        return
    arrow = extras.load("pyarrow", "parquet")
    if file.suffix == ".parquet":
        with extras.load("pyarrow.parquet", "parquet").ParquetFile(file) as table:
            columns = _columns(table.schema_arrow.names)
            yield from chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(_BATCH_ROWS, columns=columns))
        return
    with arrow.OSFile(str(file)) as source, extras.load("pyarrow.ipc", "parquet").open_stream(source) as table:
        columns = _columns(table.schema.names)
        for batch in table:
            batch.validate(full=True)
            yield from batch.select(columns).to_pylist()


def _columns(names: Sequence[str]) -> list[str]:
    if not set(COLUMNS[0]) & set(names):
        raise ValueError(f"it has no column {' or '.join(COLUMNS[0])}, but: {', '.join(names)}")
    return [name for name in chain.from_iterable(COLUMNS) if name in names]


def _problem_file(row: object, place: Path) -> tuple[Path, str]:
    """Return the file of a row, below a directory of its level, and its text. ValueError where it is no problem."""
    values: Any = json.loads(row) if isinstance(row, bytes) else row
    if not isinstance(values, Mapping):
        raise ValueError("it is not a JSON object; write one with the columns code, level, name and problem_id")
    code, number, name, level = (next((values[key] for key in keys if values.get(key) is not None), "") for keys in COLUMNS)
    if not isinstance(code, str) or not code.strip():
        raise ValueError(f"no text in a column {' or '.join(COLUMNS[0])}")
    class_name = values.get("entry_point")
    if isinstance(class_name, str) and class_name.isidentifier() and f"class {kernelbench.CLASS}(" not in code:
        if not _has_class(code, class_name):
            raise ValueError(f"its code has no class {class_name[:_SLUG_CHARS]}, which entry_point names")
        code += _MODEL.format(name=class_name)
    words = str(name) if str(name).startswith(f"{number}_") else f"{number}_{name}"
    stem, folder = (re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_SLUG_CHARS] for text in (words, f"level_{level}"))
    return place / folder / f"{stem or place.name}.py", code


def _has_class(code: str, name: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, MemoryError) as error:
        raise ValueError(f"its code is not Python: {error or type(error).__name__}") from None
    return any(isinstance(statement, ast.ClassDef) and statement.name == name for statement in tree.body)
