"""Adds to a failed trial what its author should know: the first wrong elements, their pattern, a symptom, a CUDA error.

Decides nothing: the outcome stays what `judge_run` found. A symptom is a lower precision, or the answer to earlier inputs. A kernel on
tensor cores rounds the operands of its products and adds in float32. So the reference is run again with the operands of its products
rounded, and with its inputs rounded: an output that is much nearer to one of these answers than to the right one has that precision's
errors. One whose every element is a value of the lower dtype was rounded to it at the end.

The wrong elements are looked for a second time, in chunks that the caches hold, because the comparison keeps no mask of a right answer.
A pattern, such as the last rows, is named only where every wrong element is in it, and much of what it covers is wrong: a phrase that is
not certain is not said.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy
import torch

from sandbox.judge.references import ReferenceFailed, Tensors
from sandbox.judge.references.dispatch_mode import DispatchMode
from sandbox.judge.runner_link import is_ok
from sandbox.judge.tolerance import FLOAT4, except_right_nan, is_narrow, numbers, output_was_read, rms, same_bytes
from sandbox.judge.trial import Run, WorkloadContext, expected
from sandbox.protocol import wire
from sandbox.protocol.wire import IndexRange, PatternKind, Symptom, Tolerance, TrialOutcome, WrongPattern

COMPARED = frozenset((TrialOutcome.MISMATCHED, TrialOutcome.UNWRITTEN, TrialOutcome.NON_FINITE))
_CUDA_ERROR = re.compile(r"cudaError\w{1,60}: [ -~]{1,200}")  # as the runner reports it; anything else is not shown
BUDGET_S = 3.0  # of further runs of the reference; then nothing is said
NEARER = 0.3  # of the error that it has against the right answer, as root mean squares
LARGEST_ERROR = 0.05  # of the answer, as root mean squares: a larger one is no matter of precision
TF32_DROPPED_BITS = 13  # of float32's mantissa, which `mma` with tf32 operands ignores (PTX ISA, "Alternate floating-point data formats")
_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "_scaled_dot_product_flash_attention_for_cpu"))
MOST = 5
CHUNK = 1 << 20  # elements looked at together: a mask of all indices would be larger than the output
HOST_CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 24  # elements looked at together: what a core's cache holds; what keeps a GPU busy
FEWEST = 4  # fewer elements that were written wrongly have nothing in common
# How much of a pattern has to be wrong: some elements are right by chance.
FILLED, MOSTLY_FILLED, NEARLY_FILLED, EXACT = 0.25, 0.75, 0.9, 0.98
FEWEST_OUTSIDE = 16  # right elements outside of a region that is not full
MOST_STEP = 128
WINDOW = 4096  # indices in which the first step is looked for
MOST_BORDER = 8
SMALLEST_SIDE = 8  # of what has a triangle or a border
Found = tuple[PatternKind, tuple[IndexRange, ...], int]  # and how many elements it covers


def explain(trial: wire.Trial, result: Run, bench: WorkloadContext, earlier: Tensors | None, *, takes_outputs: bool = False) -> wire.Trial:
    """The trial of a run, with the reasons that can be seen where it failed. earlier: the outputs of the run before, which passed.
    takes_outputs: the kernel is given its outputs."""
    if trial.outcome is TrialOutcome.PASSED:
        return trial
    message = result.reply.message if is_ok(result.reply) else ""
    trial = replace(trial, cuda_error=message if _CUDA_ERROR.fullmatch(message) else "")
    if trial.outcome not in COMPARED:
        return trial
    # What is computed here is for people only: it may fail, and it may be too large.
    with suppress(ReferenceFailed, torch.OutOfMemoryError):
        right = expected(bench.task.reference, result.inputs, bench.problem)
        elements: list[wire.WrongElement] = []
        for name, tensors in _outputs(result, right, bench):
            if len(elements) < MOST:
                elements += first_wrong(name, *tensors, bench.tolerance, MOST - len(elements))
        trial = replace(trial, wrong_elements=tuple(elements))
        counted = ((name, WrongCounts.of(*tensors, bench.tolerance)) for name, tensors in _outputs(result, right, bench))
        of_first = next((find_pattern(name, counts) for name, counts in counted if counts is not None), None)
        trial = replace(trial, wrong_pattern=of_first)
        trial = replace(trial, symptom=_symptom(trial, result, right, bench, earlier))
        if takes_outputs and not trial.symptom and not trial.cuda_error and all(bool(mask.all()) for mask in result.unwritten):
            trial = replace(trial, symptom=Symptom.RESULT_IGNORED)
    return trial


def _outputs(result: Run, right: Tensors, bench: WorkloadContext) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    for tensor, out, ref, mask in zip(bench.problem.outputs, result.outputs, right, result.unwritten, strict=True):
        if (out.shape, out.device) == (ref.shape, ref.device):
            yield tensor.name, comparable(out, ref, except_right_nan(mask, out, ref))


def _symptom(trial: wire.Trial, result: Run, right: Tensors, bench: WorkloadContext, earlier: Tensors | None) -> Symptom | None:
    """The precision that a wrong answer of float32 looks like, or another cause; None where it looks like none."""
    if earlier is not None and all(same_bytes(out, before) for out, before in zip(result.outputs, earlier, strict=True)):
        return Symptom.PREVIOUS_ANSWER
    if trial.outcome is TrialOutcome.NON_FINITE and any(map(output_was_read, result.outputs, result.poison_bits)):
        return Symptom.OUTPUT_READ
    for number, out, ref in zip(bench.problem.in_place, result.outputs, right, strict=True):
        if number is not None and same_bytes(out, result.inputs[number]) and not same_bytes(out, ref):
            return Symptom.UNCHANGED
    if trial.outcome is not TrialOutcome.MISMATCHED:
        return None
    off = [
        (index, out, ref, rms(out - ref))
        for index, (out, ref) in enumerate(zip(result.outputs, right, strict=True))
        if ref.dtype == torch.float32 and not torch.equal(out, ref)
    ]
    if not off or not all(error <= LARGEST_ERROR * rms(ref) for _, _, ref, error in off):
        return None
    # bfloat16 first: most of its values are values of float16 too. A mean is a sum divided by a length.
    lengths = {size for tensor in result.inputs for size in (*tensor.shape, tensor.numel() // max(1, off[0][1].numel()))} - {0, 1}
    for lower, name, of_sum in (
        (torch.bfloat16, Symptom.BFLOAT16, Symptom.BFLOAT16_SUM),
        (torch.float16, Symptom.FLOAT16, Symptom.FLOAT16_SUM),
    ):
        for length in (1, *lengths):
            if all(_is_of(out, lower, length) and not _is_of(ref, lower, length) for _, out, ref, _ in off):
                return of_sum if length > 1 else name
    begun_s = time.monotonic()
    for name, answer in _answers(result.inputs, lambda tensors: expected(bench.task.reference, tensors, bench.problem)):
        if all(rms(out - answer[index]) < NEARER * error for index, out, _, error in off):
            return name
        if time.monotonic() - begun_s > BUDGET_S:
            return None
    return None


def _answers(inputs: Tensors, reference: Callable[[Tensors], Tensors]) -> Iterator[tuple[Symptom, Tensors]]:
    for name, lower in ((Symptom.FLOAT16, torch.float16), (Symptom.TF32, None), (Symptom.BFLOAT16, torch.bfloat16)):
        with _LowProducts(lower) as mode:
            answer = reference(inputs)
        if mode.used:
            yield name, answer
        yield name, reference([_lowered(tensor, lower) for tensor in inputs])


class _LowProducts(DispatchMode):
    def __init__(self, lower: torch.dtype | None) -> None:
        super().__init__()
        self._lower = lower
        self.used = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in _PRODUCTS:
            self.used = True
            args = tuple(_lowered(item, self._lower) if isinstance(item, torch.Tensor) and item.dim() > 1 else item for item in args)
        return function(*args, **(kwargs or {}))


def _lowered(tensor: torch.Tensor, lower: torch.dtype | None) -> torch.Tensor:
    """Rounded to this dtype; None: cut to 10 bits of mantissa, as TF32 has. Those of float16 are as many, where the exponent is in its
    range."""
    if tensor.dtype != torch.float32:
        return tensor
    if lower is not None:
        return tensor.to(lower).to(tensor.dtype)
    return (tensor.contiguous().view(torch.int32) & (-1 << TF32_DROPPED_BITS)).view(torch.float32)


def _is_of(tensor: torch.Tensor, lower: torch.dtype, length: int) -> bool:
    """Return whether the values are of this dtype; or were, before they were divided by a length, which rounded them in float32."""
    if length == 1:
        return bool((tensor.to(lower).to(tensor.dtype) == tensor).all())
    values = tensor.reshape(-1)[:HOST_CHUNK].double() * length
    return len(values) > 1 and bool(((values.to(lower).double() - values).abs() <= values.abs() * 2**-22).all())


def first_wrong(
    name: str, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: Tolerance, limit: int = MOST
) -> tuple[wire.WrongElement, ...]:
    """The first elements, in the order of memory, that are not written or beyond the element-wise tolerance.

    Where every element is within it, as where only the error budget is exceeded, those with the largest error. output, reference,
    unwritten: of one shape; most: how many at most.
    """
    out, ref, missing = (tensor.reshape(-1) for tensor in (output, reference, unwritten))
    places = list(islice(_beyond(out, ref, missing, tolerance), limit)) or _largest(out, ref, limit)
    return tuple(
        wire.WrongElement(
            output=name,
            index=tuple(map(int, numpy.unravel_index(place, output.shape))),  # torch's own imports sympy, which takes a second
            expected=float(ref[place].double()),
            actual=float(out[place].double()),
            allowed_error=_allowed(ref[place], tolerance),
        )
        for place in places
    )


def _allowed(reference: torch.Tensor, tolerance: Tolerance) -> float:
    """By how much an element may differ from this one, as in `wrong_mask`; 0 where only the same is right."""
    if not reference.dtype.is_floating_point or not bool(reference.isfinite()):
        return 0.0
    return tolerance.atol + tolerance.rtol * abs(float(reference.double()))


def wrong_mask(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """A mask of the elements that are not written or beyond the element-wise tolerance. An integer that was not written may be right."""
    if not reference.dtype.is_floating_point:
        differs = output != reference
        return differs | unwritten if reference.dtype == torch.bool else differs
    out, ref = output.double(), reference.double()
    error = (out - ref).abs_()
    wrong = error > (tolerance.rtol * ref.abs()).add_(tolerance.atol)
    if not bool(error.sum().isfinite()):  # as in `tolerance.py`: only equal infinities, and NaN in both, are right
        same_class = (out == ref) | (out.isnan() & ref.isnan())
        wrong = torch.where(out.isfinite() & ref.isfinite(), wrong, ~same_class)
    return wrong | unwritten


def comparable(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three as `compare` takes them: a byte that is right was written. Floats of a byte are widened; of float4 the last axis is twice
    as long."""
    if not is_narrow(reference.dtype) or output.dtype != reference.dtype:
        return output, reference, unwritten
    unwritten = unwritten & (output.view(torch.uint8) != reference.view(torch.uint8))
    if reference.dtype == FLOAT4:
        unwritten = unwritten.repeat_interleave(2, -1)
    return numbers(output).float(), numbers(reference).float(), unwritten


def _beyond(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: Tolerance) -> Iterator[int]:
    for begin in range(0, output.numel(), CHUNK):
        chunk = slice(begin, begin + CHUNK)
        wrong = wrong_mask(output[chunk], reference[chunk], unwritten[chunk], tolerance)
        yield from (begin + int(place) for place in wrong.nonzero().view(-1)[:MOST])


def _largest(output: torch.Tensor, reference: torch.Tensor, limit: int) -> list[int]:
    """Places of the largest errors, largest first; none where there is no error."""
    best: list[tuple[float, int]] = []
    for begin in range(0, output.numel(), CHUNK):
        error = (output[begin : begin + CHUNK].double() - reference[begin : begin + CHUNK].double()).abs()
        largest = error.topk(min(limit, error.numel()))
        best += [(float(value), begin + int(place)) for value, place in zip(largest.values, largest.indices, strict=True) if value > 0]
        best = sorted(best, reverse=True)[:limit]
    return [place for _, place in best]


@dataclass(frozen=True, slots=True)
class WrongCounts:
    """The wrong elements of an output, or those that were never written, counted. right_nonzero_count: how many elements that are not zero
    in the reference are right; None where zeros are as telling as others, because what was not written is counted."""

    shape: tuple[int, ...]
    mask: torch.Tensor  # of shape (..., rows, columns): the axes that are longer than 1
    axes: tuple[int | None, ...]  # which axes of the output these are; None: no axis
    count: int
    right_nonzero_count: int | None

    @classmethod
    def of(cls, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: Tolerance) -> WrongCounts | None:
        """Count in one output; None where every element is right, as where only the error budget is exceeded, or where there is one only.

        output, reference, unwritten: of one shape, as `comparable` makes them.
        """
        if output.numel() < 2:
            return None
        mask, missing, right_nonzero_count = _masks(output.reshape(-1), reference.reshape(-1), unwritten.reshape(-1), tolerance)
        if not bool(mask.any()):
            return None
        is_unwritten = bool(missing.any())  # then the verdict is about these
        mask = missing if is_unwritten else mask
        long: list[tuple[int | None, int]] = [(axis, size) for axis, size in enumerate(output.shape) if size > 1]
        axes, sizes = zip(*(long if len(long) > 1 else [(None, 1), *long]), strict=True)
        zeros = None if is_unwritten else right_nonzero_count
        return cls(tuple(output.shape), mask.view(sizes), axes, int(mask.count_nonzero()), zeros)


def _masks(
    output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: Tolerance
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The wrong elements, those of them that were not written, and how many right elements are not zero in the reference."""
    wrong, missing = torch.empty_like(unwritten), torch.empty_like(unwritten)
    right_nonzero = torch.zeros((), dtype=torch.int64, device=output.device)
    size = HOST_CHUNK if output.device.type == "cpu" else DEVICE_CHUNK
    for begin in range(0, output.numel(), size):
        chunk = slice(begin, begin + size)
        mask = wrong_mask(output[chunk], reference[chunk], unwritten[chunk], tolerance)
        wrong[chunk] = mask
        torch.logical_and(mask, unwritten[chunk], out=missing[chunk])
        right_nonzero += (reference[chunk].to(torch.bool) & ~mask).count_nonzero()
    return wrong, missing, int(right_nonzero)


def find_pattern(name: str, counts: WrongCounts) -> WrongPattern | None:
    """The pattern of the wrong elements of the output `name`; None where they are few, or have nothing in common that is known here."""
    for kind, ranges, covered in _candidates(counts):
        # Enough of what a pattern does not cover has to be right and not zero, such as not above the diagonal of a triangular result:
        # zeros are right by chance, and then the pattern is the reference's.
        unwritten, inside = counts.right_nonzero_count is None, max(0, covered - counts.count)
        outside = (counts.right_nonzero_count or 0) - inside
        if kind is PatternKind.EVERYTHING or unwritten or outside >= FILLED * (counts.mask.numel() - covered):
            return WrongPattern(output=name, shape=counts.shape, kind=kind, count=counts.count, unwritten=unwritten, ranges=ranges)
    return None


def _candidates(counts: WrongCounts) -> Iterator[Found]:
    """Patterns that have all wrong elements, the most telling first."""
    size, right = counts.mask.numel(), counts.right_nonzero_count
    if counts.count == size:
        yield PatternKind.EVERYTHING, (), size
    in_memory = _range_of(counts.mask.view(-1), None)
    memory_regions: list[Found] = [] if in_memory is None else [(PatternKind.REGION, (in_memory[0],), in_memory[1])]
    if counts.count < FEWEST:
        yield from memory_regions if right is None else ()  # what was never written is no accident, and a tail is often shorter
        return
    # How many elements are wrong at each index of each axis.
    of_rows = counts.mask.sum(-1, dtype=torch.int64)
    other_axes = [[index for index in range(of_rows.dim()) if index != axis] for axis in range(of_rows.dim())]
    along = [*(of_rows.sum(index) if index else of_rows for index in other_axes), counts.mask.flatten(0, -2).sum(0, dtype=torch.int64)]
    region, covered = _region(counts, along)
    if in_memory is not None and len(region) != 1 and in_memory[0].step == 1 and in_memory[0].last == size - 1:
        yield from memory_regions  # the tail of a kernel that knows of no rows
    if region and counts.count >= EXACT * covered:
        yield PatternKind.REGION, region, covered
    yield from _diagonal(counts)  # which is every so many elements in memory, too
    yield from memory_regions
    if counts.count >= EXACT * size:
        yield PatternKind.EVERYTHING, (), size
    yield from _triangle(counts)
    yield from _last_rows_or_columns(counts, along)
    yield from _border(counts, along)
    filled = FILLED if 2 * covered <= size else MOSTLY_FILLED
    if region and counts.count >= filled * covered and size - covered >= FEWEST_OUTSIDE:
        yield PatternKind.REGION, region, covered


def _region(counts: WrongCounts, along: list[torch.Tensor]) -> tuple[tuple[IndexRange, ...], int]:
    """The ranges of indices in which all wrong elements are, and how many elements they cover; () where there are none."""
    ranges, covered = [], 1
    for axis, of_axis in zip(counts.axes, along, strict=True):
        candidate = _range_of(of_axis > 0, axis) or _hull(of_axis > 0, axis)
        if candidate is None:
            return (), 0
        covered *= candidate[1]
        if candidate[1] < len(of_axis):
            ranges.append(candidate[0])
    return tuple(ranges), covered


def _range_of(has: torch.Tensor, axis: int | None) -> tuple[IndexRange, int] | None:
    """The indices that are set, as a range, and how many they are; None where they are no range."""
    count, first = int(has.count_nonzero()), _first(has)
    last = len(has) - 1 - _first(has.flip(0))
    if count == last - first + 1:
        return IndexRange(axis=axis, size=len(has), first=first, last=last), count
    if count < FEWEST:
        return None
    window = has[first : first + WINDOW].nonzero().view(-1)
    step = int(window.diff().min()) if len(window) > 1 else 0
    if 1 < step <= MOST_STEP:
        grid = has[first : last + 1 : step]
        if int(grid.count_nonzero()) == count >= NEARLY_FILLED * len(grid):
            return IndexRange(axis=axis, size=len(has), first=first, last=last, step=step), count
    return None


def _hull(has: torch.Tensor, axis: int | None) -> tuple[IndexRange, int] | None:
    """From the first to the last index that is set, or the whole axis, where few in between are right by chance."""
    first, last = _first(has), len(has) - 1 - _first(has.flip(0))
    if last - first + 1 >= NEARLY_FILLED * len(has):
        first, last = 0, len(has) - 1
    if int(has.count_nonzero()) < MOSTLY_FILLED * (last - first + 1):
        return None
    return IndexRange(axis=axis, size=len(has), first=first, last=last), last - first + 1


def _first(has: torch.Tensor) -> int:
    return int(has.to(torch.uint8).argmax())


def _triangle(counts: WrongCounts) -> Iterator[Found]:
    """Yield the side of the diagonal that is full, where the other is clean."""
    rows, columns = counts.mask.shape[-2:]
    covered = counts.mask.numel() * (rows - 1) // (2 * rows)
    if rows != columns or rows < SMALLEST_SIDE or counts.count < NEARLY_FILLED * covered:
        return
    for kind, clean in ((PatternKind.UPPER_TRIANGLE, counts.mask.tril(-1)), (PatternKind.LOWER_TRIANGLE, counts.mask.triu(1))):
        if not bool(clean.any()):
            yield kind, (), covered


def _diagonal(counts: WrongCounts) -> Iterator[Found]:
    """Yield the diagonal, where nothing else is wrong."""
    rows, columns = counts.mask.shape[-2:]
    diagonal = counts.mask.diagonal(dim1=-2, dim2=-1)
    if rows == columns >= SMALLEST_SIDE and int(diagonal.count_nonzero()) == counts.count >= NEARLY_FILLED * diagonal.numel():
        yield PatternKind.DIAGONAL, (IndexRange(axis=counts.axes[-2], size=rows, first=0, last=rows - 1),), diagonal.numel()


def _last_rows_or_columns(counts: WrongCounts, along: list[torch.Tensor]) -> Iterator[Found]:
    """The last rows and the last columns, which are less than half of each, and nothing else."""
    ranges, clean = [], 1.0
    for axis, of_axis in zip(counts.axes[-2:], along[-2:], strict=True):
        size = len(of_axis)
        candidate = _range_of(of_axis >= max(1.0, FILLED * counts.mask.numel() / size), axis)
        if candidate is None or candidate[0].step > 1 or candidate[0].last < size - 1 or 2 * candidate[0].first < size:
            return
        ranges.append(candidate[0])
        clean *= candidate[0].first / size
    if not bool(counts.mask[..., : ranges[0].first, : ranges[1].first].any()):
        yield PatternKind.LAST_ROWS_OR_COLUMNS, tuple(ranges), round(counts.mask.numel() * (1 - clean))


def _border(counts: WrongCounts, along: list[torch.Tensor]) -> Iterator[Found]:
    """The first and the last indices of the last two axes, or of one of them."""
    places = {axis: place for place, axis in ((-2, counts.axes[-2]), (-1, counts.axes[-1])) if axis is not None}
    ended = [
        axis for axis, place in places.items() if min(along[place][[0, -1]].tolist()) * len(along[place]) >= FILLED * counts.mask.numel()
    ]
    for axes in [ended] if len(ended) < 2 else [ended, ended[:1], ended[1:]]:
        sizes = [len(along[places[axis]]) for axis in axes]
        widest = min((MOST_BORDER, *(size // 4 for size in sizes)))
        if not axes or min(sizes) < SMALLEST_SIDE or bool(_inside(counts, [places[axis] for axis in axes], widest).any()):
            continue
        width = next(margin for margin in range(1, widest + 1) if not _inside(counts, [places[axis] for axis in axes], margin).any())
        covered = round(counts.mask.numel() * (1 - math.prod((size - 2 * width) / size for size in sizes)))
        if counts.count >= FILLED * covered:
            ranges = (IndexRange(axis=axis, size=size, first=0, last=width - 1) for axis, size in zip(axes, sizes, strict=True))
            yield PatternKind.BORDER, tuple(ranges), covered


def _inside(counts: WrongCounts, places: list[int], width: int) -> torch.Tensor:
    """The mask without so many indices at both ends of these axes."""
    inside = counts.mask
    for place in places:
        inside = inside.narrow(place, width, inside.shape[place] - 2 * width)
    return inside
