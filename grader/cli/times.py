"""Draws measurements: what do_bench reported, what the judge's clock certified, and how near to the device's ceilings that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.cli.output import plain
from grader.v1 import report_pb2
from grader.views import figures, formatting
from grader.views.occupancy import occupancies
from grader.views.sanitize import one_line

_SUBJECT = "kernel"


def render(measurements: Sequence[report_pb2.Measurement], ceilings: Mapping[str, float]) -> Iterator[RenderableType]:
    """Times by a device's clock with all that is known of them; the host's clock, whose times are practice, gets a shorter table."""
    if any(one.clock == report_pb2.CLOCK_DEVICE_EVENTS for one in measurements):
        yield _by_device(measurements)
        for one in measurements:
            yield from _remarks(one, ceilings)
    else:
        yield _by_host(measurements)
        for one in measurements:
            yield from _turns(one)


def _by_host(measurements: Sequence[report_pb2.Measurement]) -> Table:
    table = Table("workload", box=None, pad_edge=False, title="Times (medians)", title_justify="left")
    baselines = list(dict.fromkeys(name for one in measurements for name in one.baselines))
    for heading in ("reported", "certified", *(f"PyTorch {one_line(name)}" for name in baselines), "speedup (95 % interval)"):
        table.add_column(Text(heading), justify="right")
    for one in measurements:
        reported = formatting.median(one.reported) if one.HasField("reported") else "-"
        table.add_row(
            plain(one_line(one.workload_id)),
            reported if one.reported_confirmed or reported == "-" else f"{reported} (not confirmed)",
            formatting.median(one.certified),
            *(formatting.median(one.baselines[name]) if name in one.baselines else "-" for name in baselines),
            ", ".join(formatting.ratio(speedup) for speedup in one.speedups) or "-",
        )
    return table


def _by_device(measurements: Sequence[report_pb2.Measurement]) -> Table:
    """A row for the kernel and one for each of PyTorch's ways; widths are meant for 100 columns."""
    table = Table("workload", "", box=None, pad_edge=False, title="Times (medians), with PyTorch's", title_justify="left")
    for heading in ("do_bench (p20 to p80)", "certified", "at most", "speedup (95 % interval)"):
        table.add_column(Text(heading), justify="right")
    for one in measurements:
        reported = formatting.spread(one.reported) if one.HasField("reported") else "-"
        table.add_row(
            plain(one_line(one.workload_id)),
            _SUBJECT,
            reported if one.reported_confirmed or reported == "-" else f"{formatting.median(one.reported)}, not confirmed",
            formatting.median(one.certified),
            formatting.time(formatting.duration_ns(one.bound_duration)),
            "",
        )
        speedups = {speedup.baseline: speedup for speedup in one.speedups}
        for name in formatting.baselines((*one.reported_baselines, *one.baselines)):
            table.add_row(
                "",
                plain(one_line(name)),
                formatting.spread(one.reported_baselines[name]) if name in one.reported_baselines else "-",
                formatting.median(one.baselines[name]) if name in one.baselines else "-",
                "",
                formatting.ratio(speedups[name]) if name in speedups else "-",
            )
    return table


def _remarks(one: report_pb2.Measurement, ceilings: Mapping[str, float]) -> Iterator[Text]:
    lines = [formatting.throughput(found)] if (found := figures.throughput(one, ceilings)) else [formatting.shares(one)]
    lines.append(formatting.second_figures(one))
    lines.append([f"certified median {interval}, 95 % interval"] if (interval := formatting.median_range(one.certified)) else [])
    for line in filter(None, lines):
        yield plain(f"{one_line(one.workload_id)}: {one_line(', '.join(line))}")
    yield from _turns(one)
    if conditions := formatting.conditions(one.conditions):
        yield plain(f"{one_line(one.workload_id)}: {one_line(conditions)}", "dim")


def _turns(one: report_pb2.Measurement) -> Iterator[Text]:
    if turns := formatting.turns(one):
        yield plain(f"{one_line(one.workload_id)}: {turns}", "dim")


def kernels(uses: Sequence[report_pb2.KernelUse], architecture: str = "", most: int = 4) -> Iterator[RenderableType]:
    """What the compiled kernels take of the device."""
    if not uses:
        return
    table = Table("kernel", box=None, pad_edge=False, title="Kernels, as the compiler says", title_justify="left")
    doubles = any(use.double_instruction_count for use in uses[:most])
    for heading in ("registers", "shared", "stack", "spilled (stores, loads)", *(["float64 instructions"] if doubles else [])):
        table.add_column(heading, justify="right")
    for use in uses[:most]:
        spilled = f"{use.spill_store_bytes} B, {use.spill_load_bytes} B" if use.spill_store_bytes or use.spill_load_bytes else "no"
        name = plain(one_line(use.name, most_chars=40))
        counted = [str(use.double_instruction_count)] if doubles else []
        registers = str(use.registers) if use.registers else "-"  # no kernel does without: nobody counted them
        table.add_row(name, registers, f"{use.shared_bytes} B", f"{use.stack_bytes} B", spilled, *counted)
    yield table
    for use in uses[:most]:
        if found := occupancies(architecture, use.registers, use.shared_bytes):
            yield plain(f"{one_line(use.name, most_chars=40)}: occupancy at most {formatting.occupancies(found)}", "dim")
    if len(uses) > most:
        yield Text(f"and {len(uses) - most} more; --json has them all")
