"""Searches for a faster tile size of `tril_matmul.cu`, and plots its rounds. README.md says how to run it."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import uuid
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from grader.api.client import GraderClient
from grader.errors import GraderError
from grader.v1 import report_pb2, submission_pb2
from grader_extensions.web.plots.charts import ChartAxis, ChartSeries, line_chart

Variant = tuple[int, int]  # TILE, ROWS
TEMPLATE = Path(__file__).with_name("tril_matmul.cu")
PROBLEM = "problems/tril_matmul"
START, MOST = (4, 1), (32, 8)  # a block has at most 32 * 32 threads


def source(variant: Variant) -> str:
    """The template with these numbers."""
    numbers = {"TILE": variant[0], "ROWS": variant[1]}
    pattern = r"(constexpr int (TILE|ROWS) =) \d+;"
    return re.sub(pattern, lambda match: f"{match[1]} {numbers[match[2]]};", TEMPLATE.read_text("utf-8"))


def neighbours(variant: Variant) -> list[Variant]:
    """Each number halved and doubled, within bounds."""
    tile, rows = variant
    near = ((tile * 2, rows), (tile // 2, rows), (tile, rows * 2), (tile, rows // 2))
    return [(tile, rows) for tile, rows in near if 1 <= tile <= MOST[0] and 1 <= rows <= MOST[1]]


def time_us(report: report_pb2.Report) -> float:
    """The geometric mean of the certified times over all workloads; infinite where the kernel is not right."""
    times = [row.certified.median_duration.ToNanoseconds() / 1e3 for row in report.measurements]
    if report.verdict != report_pb2.VERDICT_ACCEPTED or not times:
        return math.inf
    return math.exp(sum(math.log(max(time, 1e-3)) for time in times) / len(times))


def feedback(report: report_pb2.Report) -> str:
    """Return the text for a program that writes the next kernel: verdict, reason, and the first wrong element."""
    wrong = [f"{list(row.index)} is {row.actual}, not {row.expected}" for trial in report.trials for row in trial.wrong_elements]
    return " ".join([report_pb2.Verdict.Name(report.verdict).removeprefix("VERDICT_"), report.reason, *wrong[:1]]).strip()


class Search:
    """A search. times_us: of every variant tried; names: the submission of each."""

    def __init__(self, client: GraderClient, device: str) -> None:
        self._client, self._device = client, device
        self.run = f"search-{uuid.uuid4().hex[:8]}"
        self.times_us: dict[Variant, float] = {}
        self.names: dict[Variant, str] = {}
        self.rounds: list[list[float]] = []

    @property
    def best(self) -> Variant:
        """The fastest so far."""
        return min(self.times_us, key=self.times_us.__getitem__)

    async def search(self, most_rounds: int) -> None:
        """Try the neighbours of the best kernel so far, round by round, until none is faster or there were so many rounds."""
        variants, parent = [START], ""
        while variants and len(self.rounds) < most_rounds:
            before = min(self.times_us.values(), default=math.inf)
            await self._round(variants, parent, f"{self.run}:{len(self.rounds) + 1}")
            if self.times_us[self.best] >= before:
                return
            variants = [variant for variant in neighbours(self.best) if variant not in self.times_us]
            parent = self.names[self.best]

    async def _round(self, variants: Sequence[Variant], parent: str, tag: str) -> None:
        of_name = await self._submit({variant: self._submission(variant, parent, tag) for variant in variants})
        print(f"round {len(self.rounds) + 1}: {len(of_name)} variants, tag {tag}")
        async for update in self._client.watch_many(tag=tag):
            if not (submission := update.submission).HasField("end_time"):
                continue
            variant = of_name[submission.name]
            self.times_us[variant], self.names[variant] = time_us(submission.report), submission.name
            print(f"  TILE {variant[0]:2} ROWS {variant[1]}: {self.times_us[variant]:10.1f} us  {feedback(submission.report)}")
        self.rounds.append([self.times_us[variant] for variant in of_name.values()])

    async def _submit(self, submissions: dict[Variant, submission_pb2.Submission]) -> dict[str, Variant]:
        """Hand all of them in, and those again for which there was no room. The same request ids: none is taken twice."""
        waiting, of_name = {variant: str(uuid.uuid4()) for variant in submissions}, dict[str, Variant]()
        while waiting:
            kernels = [submissions[variant] for variant in waiting]
            results = await self._client.batch_submit(kernels, request_ids=list(waiting.values()), batch=True)
            wait_s = 0.0
            for variant, result in zip(tuple(waiting), results, strict=True):
                if isinstance(result, submission_pb2.Submission):
                    of_name[result.name] = variant
                    del waiting[variant]
                elif (retry_s := getattr(result, "retry_s", None)) is None:
                    raise result
                else:
                    wait_s = max(wait_s, retry_s)
            await asyncio.sleep(wait_s)
        return of_name

    def _submission(self, variant: Variant, parent: str, tag: str) -> submission_pb2.Submission:
        return submission_pb2.Submission(
            problem=PROBLEM,
            sources=[submission_pb2.SourceFile(path="kernel.cu", content=source(variant))],
            device_kind=self._device,
            tags=[self.run, tag],
            parent=parent,
            annotations={"TILE": str(variant[0]), "ROWS": str(variant[1])},
        )


def plot(rounds: Sequence[Sequence[float]]) -> str:
    """An SVG: the fastest and the slowest right kernel of each round, and the best so far."""
    fastest = [min(times) for times in rounds]
    slowest = [max((time for time in times if math.isfinite(time)), default=math.inf) for times in rounds]
    lines = {"slowest of the round": slowest, "fastest of the round": fastest, "best so far": list(accumulate(fastest, min))}
    series = [ChartSeries(name=name, xs=range(1, len(rounds) + 1), ys=ys) for name, ys in lines.items()]
    x, y = ChartAxis(label="round"), ChartAxis(label="us", log=True)
    return line_chart(series, title="Search for a tile size", description="Times by round, in microseconds", x=x, y=y)


async def main(options: argparse.Namespace) -> None:
    """Search, and write the plot."""
    async with GraderClient(options.server, key=os.environ.get("GRADER_KEY", "")) as client:
        search = Search(client, options.device)
        await search.search(options.rounds)
    options.out.write_text(plot(search.rounds), "utf-8")
    first, best = search.times_us[START], search.best
    print(f"best: TILE {best[0]} ROWS {best[1]}, {first / search.times_us[best]:.2f} times as fast as the first; {search.names[best]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=os.environ.get("GRADER_SERVER", "127.0.0.1:50551"))
    parser.add_argument("--device", default="")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("rounds.svg"))
    try:
        asyncio.run(main(parser.parse_args()))
    except GraderError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
