"""`grader-cli summary`: rates, pass@k and speedups of the submissions with a tag, alone or against those with another."""

from __future__ import annotations

import json as json_module
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from grader.cli.exits import Exit, UsageError
from grader.cli.options import Server, StateDir
from grader.cli.output import plain, print_parts, text_table
from grader.cli.session import ServerRequirement, Target, connect
from grader.devices import EMULATED
from grader.verdict.scores import Estimate
from grader.views.formatting import PRACTICE
from grader.views.sanitize import one_line
from grader_extensions.statistics.estimators import geometric_mean, pass_at_k, sign_test, wilcoxon
from grader_extensions.statistics.records import Row, row, tagged

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)  # p of fast_p

ByProblem = Mapping[str, Sequence[Row]]


async def summary_command(
    tag: Annotated[str, typer.Option(metavar="TAG", help="The submissions with this tag.")],
    against: Annotated[
        str, typer.Option(metavar="TAG", help="Compare them with the submissions with this tag, problem by problem.", show_default=False)
    ] = "",
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    user: Annotated[str, typer.Option(help="Only submissions of this user. For administrators.", show_default=False)] = "",
    mode: Annotated[str, typer.Option(help="Only submissions in this mode.", show_default=False)] = "",
    device: Annotated[str, typer.Option(help="Only submissions graded on this device, or kind of device.", show_default=False)] = "",
    baseline: Annotated[str, typer.Option(help="The baseline of speedups: eager or compile.")] = "eager",
    server: Server = None,
    state_dir: StateDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and nothing else, on stdout.")] = False,
) -> Exit:
    """Summarise the submissions with a tag: verdicts, fast_p, pass@k, and the geometric mean of speedups.

    With --against, also wins, ties and losses by problem, the ratio of speedups, and two tests. Submissions of several modes, devices or
    users are refused: name one. What has no verdict is counted apart, and never as wrong.
    """
    tags = [tag, against] if against else [tag]
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        sets = [[row(entry, baseline) async for entry in tagged(client, tag=name, problem=problem, user=user)] for name in tags]
    kinds = {entry["device_kind"] for rows in sets for entry in rows if entry["device"] and _is_on(entry, device)}
    sets = [[entry for entry in rows if _is_meant(entry, mode, device, kinds)] for rows in sets]
    everything = [entry for rows in sets for entry in rows]
    _check_alike("mode", modes := [entry["mode"] for entry in everything])
    _check_alike("device", places := [place for entry in everything if (place := _place(entry, kinds))])
    for rows in sets:
        _check_alike("user", [entry["user"] for entry in rows])
    data: dict[str, Any] = {
        **{"mode": next(iter(modes), mode), "device": next(iter(places), device), "baseline": baseline},
        "practice": EMULATED in kinds,
        "sets": [{"tag": name, **summarise(rows)} for name, rows in zip(tags, sets, strict=True)],
        "comparison": compare(*map(_by_problem, sets)) if against else None,
    }
    if json:
        typer.echo(json_module.dumps(data, indent=2))
    else:
        print_parts(render(data))
    return Exit.DONE


def _place(entry: Row, kinds: set[str]) -> str | None:
    """Return its device. None where it was not graded, or failed before the device was known: it goes with those of its kind, of which
    there are some if it is in kinds, and else stands for the kind."""
    return entry["device"] or (None if entry["device_kind"] in kinds else entry["device_kind"])


def _is_meant(entry: Row, mode: str, device: str, kinds: set[str]) -> bool:
    return mode in ("", entry["mode"]) and (_place(entry, kinds) is None or _is_on(entry, device))


def _is_on(entry: Row, device: str) -> bool:
    return device in ("", entry["device"], entry["device_kind"])


def _check_alike(field: str, values: Sequence[str]) -> None:
    if len(counts := Counter(values)) > 1:
        listed = ", ".join(f"{value[:80]!r} ({count})" for value, count in counts.most_common(10))
        raise UsageError(f"{field}: the submissions are of several, which are not mixed: {listed}; name one with --{field}")


def _by_problem(rows: Sequence[Row]) -> ByProblem:
    """Sort what has a verdict."""
    graded = sorted((entry for entry in rows if entry["verdict"]), key=lambda entry: (entry["problem"], entry["submission"]))
    return {problem: list(samples) for problem, samples in groupby(graded, key=lambda entry: str(entry["problem"]))}


def _best(samples: Sequence[Row]) -> Row | None:
    """Return the fastest that is right."""
    return max((entry for entry in samples if entry["accepted"]), key=lambda entry: entry["speedup"] or 0.0, default=None)


def _estimate(entry: Row | None) -> Estimate | None:
    if entry is None or not entry["speedup"]:
        return None
    return Estimate.from_interval(entry["speedup"], entry["speedup_low"], entry["speedup_high"])


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Count submissions by verdict; estimate rates, as means over problems, and the geometric mean of the best of each problem."""
    by_problem = _by_problem(rows)
    graded = [entry for samples in by_problem.values() for entry in samples]
    accepted = [entry for entry in graded if entry["accepted"]]
    figures = [figure for samples in by_problem.values() if (figure := _estimate(_best(samples)))]
    sample_limit = max(map(len, by_problem.values()), default=0)
    return {
        "submissions": len(rows),
        "not_graded": Counter(" ".join(filter(None, (entry["state"], entry["error"]))) for entry in rows if not entry["verdict"]),
        "graded": len(graded),
        "problems": len(by_problem),
        "verdicts": Counter(" ".join(filter(None, (entry["verdict"], entry["reason"]))) for entry in graded),
        "accepted": len(accepted),
        "correct_rate": len(accepted) / len(graded) if graded else None,
        "pass_at_k": {k: _pass_at(k, by_problem) for k in (1 << exponent for exponent in range(sample_limit.bit_length()))},
        "accepted_without_speedup": sum(not entry["speedup"] for entry in accepted),
        # Where no accepted submission has a speedup, as in mode test, nothing is known of speed.
        "fast_p": {f"{p:g}": _fast(p, by_problem) for p in THRESHOLDS} if graded and (figures or not accepted) else None,
        "speedup": _mean(figures),
    }


def _pass_at(k: int, by_problem: ByProblem) -> dict[str, Any]:
    """Average over the problems with at least k samples."""
    counts = [(len(samples), sum(entry["accepted"] for entry in samples)) for samples in by_problem.values() if len(samples) >= k]
    return {"value": statistics.fmean(pass_at_k(*pair, k) for pair in counts), "problems": len(counts)}


def _fast(p: float, by_problem: ByProblem) -> float:
    """KernelBench's fast_p (arXiv:2502.10517): right, and a speedup above p. Of several samples to a problem, the share of them counts.
    One that is right and has no speedup is above 0 only."""
    shares = [[entry["accepted"] and (p == 0 or (entry["speedup"] or 0.0) > p) for entry in samples] for samples in by_problem.values()]
    return statistics.fmean(map(statistics.fmean, shares))


def _mean(figures: Sequence[Estimate]) -> dict[str, Any] | None:
    return {**asdict(geometric_mean(figures)), "problems": len(figures)} if figures else None


def compare(first: ByProblem, second: ByProblem) -> dict[str, Any]:
    """Compare the best of each problem that both have."""
    pairs = [(_best(first[problem]), _best(second[problem])) for problem in sorted(first.keys() & second.keys())]
    outcomes = Counter(_outcome(*pair) for pair in pairs)
    figures = [(ours, theirs) for pair in pairs if (ours := _estimate(pair[0])) and (theirs := _estimate(pair[1]))]
    ratios = [Estimate(ours.log - theirs.log, math.hypot(ours.half, theirs.half)) for ours, theirs in figures]
    wins, losses = (outcomes[name] + outcomes[f"{name}_by_verdict"] for name in ("wins", "losses"))
    return {
        **{"problems": len(pairs), "problems_of_one_only": len(first.keys() ^ second.keys())},
        **{"wins": wins, "ties": len(pairs) - wins - losses, "losses": losses, "neither_right": outcomes["neither_right"]},
        **{name: outcomes[name] for name in ("wins_by_verdict", "losses_by_verdict")},
        "sign_test_p": sign_test(wins, losses),
        "ratio": _mean(ratios),
        "wilcoxon_p": wilcoxon([ratio.log for ratio in ratios]),
    }


def _outcome(first: Row | None, second: Row | None) -> str:
    """A win is right where the other is not, or faster with intervals that are apart. Without a speedup, all that are right are equal."""
    if first is None or second is None:
        return "neither_right" if first is second else "wins_by_verdict" if second is None else "losses_by_verdict"
    if not (first["speedup"] and second["speedup"]):
        return "ties"
    apart = {"wins": first["speedup_low"] > second["speedup_high"], "losses": second["speedup_low"] > first["speedup_high"]}
    return next((name for name, is_so in apart.items() if is_so), "ties")


def render(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The figures for people: a column for each tag."""
    practice = f" ({PRACTICE})" if data["practice"] else ""
    yield plain(one_line(f"mode {data['mode']}, device: {data['device'] or 'none'}, baseline {data['baseline']}{practice}"))
    columns = [_column(figures) for figures in data["sets"]]
    labels = dict.fromkeys(label for column in columns for label in column)
    tags = [figures["tag"] for figures in data["sets"]]
    yield text_table(("", *map(one_line, tags)), [(label, *(column.get(label, "-") for column in columns)) for label in labels])
    if (comparison := data["comparison"]) is not None:
        yield plain(f"\n{one_line(tags[0])} against {one_line(tags[1])}, the best of each of {comparison['problems']} problems:", "bold")
        yield Text(
            "wins {wins} ({wins_by_verdict} where only these are right), losses {losses} ({losses_by_verdict} likewise), ties {ties} "
            "({neither_right} where neither is right), sign test: p = {sign_test_p:.3g}; not compared, for only one tag has verdicts: "
            "{problems_of_one_only}".format(**comparison)
        )
        yield Text(f"ratio of speedups: {_words(comparison['ratio'])}, Wilcoxon's signed ranks: p = {comparison['wilcoxon_p']:.3g}")


def _column(figures: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a tag by their labels."""
    return {
        "submissions": str(figures["submissions"]),
        **{f"not graded, in no rate: {name}": str(count) for name, count in figures["not_graded"].items()},
        **{name: str(count) for name, count in figures["verdicts"].most_common()},
        "accepted": f"{figures['accepted']} of {figures['graded']} ({figures['correct_rate'] or 0:.1%})",
        **{f"pass@{k}": f"{rate['value']:.3f} ({rate['problems']} problems)" for k, rate in figures["pass_at_k"].items()},
        **{f"fast_{p}": f"{rate:.3f}" for p, rate in (figures["fast_p"] or {}).items()},
        "accepted without speedup": str(figures["accepted_without_speedup"]),
        "speedup, best of each problem": _words(figures["speedup"]),
    }


def _words(mean: Mapping[str, Any] | None) -> str:
    return "{value:.3g}x ({low:.3g} to {high:.3g}; {problems} problems)".format(**mean) if mean else "none"
