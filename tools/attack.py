"""Grades every kernel of tests/exploits and tests/honest on the emulated device, and prints a table.

    python -m tools.attack [--only attacks,controls,honest] [--isolation docker,bubblewrap] [--repeat 3]

Progress goes to stderr, the table to stdout. The exit code is 1 if an attack gained something, a control was not fooled,
or an honest kernel was refused. On a GPU: `make gpu GPU_ARGS='-k "test_exploits or test_honest_set"'`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tools.page import arguments_of, case_result, facts, outcome, run_tests, table_lines, words_of

PARTS = {
    "attacks": ("tests/exploits/test_exploits.py",),
    "controls": ("tests/exploits", "--deselect", "tests/exploits/test_exploits.py"),
    "honest": ("tests/honest",),
}
TITLES = {"attacks": "Attacks", "controls": "Controls: the same attacks on graders that lack one protection", "honest": "Honest kernels"}
ROW = "row"  # the property in which a test records its row, as JSON
COLUMNS = ("id", "severity", "attack", "isolation", "verdict", "gained", "seconds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print claims and rows; 1 if a claim fails."""
    settings: dict[str, tuple[Any, ...]] = {
        "only": (list(PARTS), f"of {', '.join(PARTS)}", {"type": words_of(PARTS), "metavar": "PARTS"}),
        "isolation": ("all", "docker, bubblewrap, or all that work here"),
        "repeat": (1, "gradings of each honest kernel"),
        "workers": (2, "test processes that run in parallel"),
    }
    options = arguments_of("tools.attack", __doc__, arguments, settings)
    claims: list[tuple[str, bool, str]] = []
    lines: list[str] = []
    for part in options.only:
        start_s = time.monotonic()
        words = ["-n", str(options.workers), "--dist", "loadfile", "--all-cases", *PARTS[part]]
        if part != "honest" and options.isolation != "all":
            words += ["-k", options.isolation.replace(",", " or ")]
        cases = run_tests(words, HONEST_REPEATS=str(options.repeat))
        rows = [json.loads(entry.get("value", "")) for case in cases for entry in case.iter("property") if entry.get("name") == ROW]
        counts = Counter(map(case_result, cases))
        if rows:
            gains = [row["attack"] for row in rows if row["gained"] != "none"]
            verdicts = Counter(row["verdict"].split()[0] for row in rows).most_common()
            detail = ", ".join(gains or (f"{count} {verdict}" for verdict, count in verdicts))
            claims.append((f"{len(rows)} gradings of attacks gain nothing", not gains, detail))
            cells = [[row.get(column, "") for column in COLUMNS] for row in sorted(rows, key=lambda row: row["attack"])]
            lines += [f"{TITLES[part]}, in {time.monotonic() - start_s:.0f} s:", "", *table_lines(COLUMNS, cells), ""]
        detail = ", ".join(f"{counts[result]} {result}" for result in ("passed", "skipped", "failed"))
        claims.append((f"every test of {PARTS[part][0]} passes", counts["passed"] > 0 == counts["failed"], detail))
        lines += [f"Failed: `{case.get('name')}`" for case in cases if case_result(case) == "failed"]
    head = table_lines(("fact", "value"), {**facts("make attack"), "device": "emulated"}.items())
    table = table_lines(("claim", "outcome", "detail"), [(text, outcome(holds), detail) for text, holds, detail in claims])
    sys.stdout.write("\n".join([*head, "", *table, "", *lines]) + "\n")
    return int(not all(holds for _, holds, _ in claims))


if __name__ == "__main__":
    raise SystemExit(main())
