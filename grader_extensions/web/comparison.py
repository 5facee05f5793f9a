"""Compares two submissions: their times on each workload, with intervals, and their sources.  Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from enum import StrEnum
from operator import itemgetter

from grader.v1 import report_pb2, submission_pb2
from grader.verdict.median_interval import MedianInterval, ratio_of_medians

SOURCE_LINES = 2_000  # of a longer file only that it differs is said


class SpeedChange(StrEnum):
    """Change of the second submission against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    UNKNOWN = "can't tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChange:
    """Change on a workload.

    ratio: the first's certified time divided by the second's, above 1 where the second is faster; None where a time is missing. against:
    the same of the times over those of a baseline, which was timed in turns with each of them, so that what changed between the two
    gradings is not taken for a change of the kernel. reason: why nothing can be concluded, or "".
    """

    workload_id: str
    ratio: MedianInterval | None
    against: MedianInterval | None
    baseline: str
    change: SpeedChange
    reason: str


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A file that differs, as the lines of a unified diff."""

    path: str
    lines: tuple[str, ...]


def workload_changes(first: submission_pb2.Submission, second: submission_pb2.Submission) -> list[WorkloadChange]:
    """Every workload that either was measured on, in their order."""
    by_id = [{row.workload_id: row for row in submission.report.measurements} for submission in (first, second)]
    names = dict.fromkeys([*by_id[0], *by_id[1]])
    before, after = first.report.environment, second.report.environment
    elsewhere = "timed by different clocks" if before.clock != after.clock else ""
    if (before.device_kind, before.device) != (after.device_kind, after.device):
        elsewhere = f"graded on different devices, {before.device or before.device_kind} and {after.device or after.device_kind}"
    return [_changed(name, by_id[0].get(name), by_id[1].get(name), elsewhere) for name in names]


def source_changes(first: submission_pb2.Submission, second: submission_pb2.Submission) -> Iterator[SourceChange]:
    """Files that differ, by path. A file that only one of them has differs as a whole, unless it is the only one on both sides."""
    before, after = ({source.path: source.content for source in submission.sources} for submission in (first, second))
    removed, added = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    if len(removed) == len(added) == 1:
        yield SourceChange(added[0], tuple(_diff(removed[0], before[removed[0]], added[0], after[added[0]])))
        removed, added = [], []
    for path in sorted({*(before.keys() & after.keys()), *removed, *added}):
        if before.get(path) != after.get(path):
            yield SourceChange(path, tuple(_diff(path, before.get(path), path, after.get(path))))


def _diff(old_path: str, before: str | None, new_path: str, after: str | None) -> Iterator[str]:
    # Not splitlines: a form feed, or a separator of Unicode, ends no line of a source.
    old, current = ([] if text is None else text.split("\n") for text in (before, after))
    if max(len(old), len(current)) > SOURCE_LINES:
        yield f"{new_path} differs; it has more than {SOURCE_LINES} lines, which is too long to compare here"
        return
    yield "--- /dev/null" if before is None else f"--- a/{old_path}"
    yield "+++ /dev/null" if after is None else f"+++ b/{new_path}"
    for hunk in _LineMatcher(old, current).get_grouped_opcodes():
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
        yield f"@@ -{_span(old_start, old_end)} +{_span(new_start, new_end)} @@"
        for tag, old_start, old_end, new_start, new_end in hunk:
            marks = ("-", "+") if tag != "equal" else (" ", "")
            yield from (marks[0] + line for line in old[old_start:old_end])
            yield from (marks[1] + line for line in current[new_start:new_end] if marks[1])


def _span(start: int, end: int) -> str:
    return f"{start + 1}" if end == start + 1 else f"{start + (end > start)},{end - start}"


class _LineMatcher(SequenceMatcher[str]):
    """Matches lines in n log n steps, as a patience diff does: difflib compares all with all, and sources are a stranger's."""

    def __init__(self, old: Sequence[str], current: Sequence[str]) -> None:
        super().__init__(None, old, current, autojunk=False)
        self._old, self._current = old, current

    def get_matching_blocks(self) -> list[Match]:
        """The longest rising chain of lines that each side has once, and what is equal next to them."""
        old, current, blocks = self._old, self._current, [Match(0, 0, 0)]
        for old_end, new_end in [*_chain(old, current), (len(old), len(current))]:
            last = blocks[-1]
            limit = min(old_end - last.a - last.size, new_end - last.b - last.size)
            after = next((step for step in range(limit) if old[last.a + last.size + step] != current[last.b + last.size + step]), limit)
            blocks[-1] = last = last._replace(size=last.size + after)
            limit -= after
            before = next((step for step in range(limit) if old[old_end - step - 1] != current[new_end - step - 1]), limit)
            if (last.a + last.size, last.b + last.size) != (old_end - before, new_end - before):
                blocks.append(Match(old_end - before, new_end - before, before))
            elif before:
                blocks[-1] = last._replace(size=last.size + before)
        return [*(block for block in blocks if block.size), Match(len(old), len(current), 0)]


def _chain(old: Sequence[str], current: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that both sides have once, rising on both."""
    old_counts, new_counts, places = Counter(old), Counter(current), {line: place for place, line in enumerate(current)}
    ends, before = list[tuple[int, int]](), dict[tuple[int, int], tuple[int, int] | None]()  # ends: of the best chain of each length
    for place, line in enumerate(old):
        if old_counts[line] == new_counts[line] == 1:
            pair = (place, places[line])
            length = bisect_left(ends, pair[1], key=itemgetter(1))
            before[pair] = ends[length - 1] if length else None
            ends[length : length + 1] = [pair]
    chain, last = list[tuple[int, int]](), ends[-1] if ends else None
    while last is not None:
        chain.append(last)
        last = before[last]
    return chain[::-1]


def _changed(name: str, first: report_pb2.Measurement | None, second: report_pb2.Measurement | None, elsewhere: str) -> WorkloadChange:
    if first is None or second is None:
        missing = "a" if first is None else "b"
        return WorkloadChange(
            workload_id=name, ratio=None, against=None, baseline="", change=SpeedChange.UNKNOWN, reason=f"{missing} has no certified time"
        )
    ratio = ratio_of_medians(list(first.certified.sample_durations_ns), list(second.certified.sample_durations_ns))
    against, baseline = _against_baseline(first.speedups, second.speedups)
    reason = elsewhere or ("too few samples, or a time that was not resolved" if ratio is None else "")
    change = SpeedChange.UNKNOWN
    if ratio is not None and not reason:
        change, reason = _concluded(ratio, against, baseline)
    return WorkloadChange(workload_id=name, ratio=ratio, against=against, baseline=baseline, change=change, reason=reason)


def _concluded(ratio: MedianInterval, against: MedianInterval | None, baseline: str) -> tuple[SpeedChange, str]:
    """Faster or slower only where no interval has 1 within it, and both are on one side of it."""
    ratios = [ratio] if against is None else [ratio, against]
    if all(interval.low > 1 for interval in ratios):
        return SpeedChange.FASTER, ""
    if all(interval.high < 1 for interval in ratios):
        return SpeedChange.SLOWER, ""
    if ratio.low > 1 or ratio.high < 1:
        return SpeedChange.UNKNOWN, f"the speedup over {baseline} does not confirm it: the device may have changed between the two"
    return SpeedChange.UNKNOWN, "1x is within the interval"


def _against_baseline(first: Sequence[report_pb2.Speedup], second: Sequence[report_pb2.Speedup]) -> tuple[MedianInterval | None, str]:
    """The second's speedup divided by the first's, over the baseline that both have; the two intervals are of independent gradings."""
    by_baseline = {speedup.baseline: speedup for speedup in first}
    for after in sorted(second, key=lambda speedup: (speedup.baseline != "eager", speedup.baseline)):
        before = by_baseline.get(after.baseline)
        if before is not None and _usable(after) and _usable(before):
            value = after.ratio / before.ratio
            factor = math.exp(math.hypot(_half_width(after), _half_width(before)))
            return MedianInterval(value=value, low=value / factor, high=value * factor), after.baseline
    return None, ""


def _usable(speedup: report_pb2.Speedup) -> bool:
    return 0 < speedup.ratio_low <= speedup.ratio <= speedup.ratio_high < math.inf and speedup.ratio_high / speedup.ratio_low < 1e6


def _half_width(speedup: report_pb2.Speedup) -> float:
    """Of the logarithm's interval, by its wider side."""
    return max(math.log(speedup.ratio_high / speedup.ratio), math.log(speedup.ratio / speedup.ratio_low))
