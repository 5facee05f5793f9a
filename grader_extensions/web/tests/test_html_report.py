"""The report as a file: what it holds, that nothing of a stranger becomes markup, and that nothing is without a bound."""

import base64
import csv
import hashlib
import html.parser
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from grader.api import messages
from grader.api.conversion import to_message
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.views import access_counts
from grader_extensions.modes.tests.test_pipeline_sanitize import COUNTS
from grader_extensions.web import submit_page
from grader_extensions.web.report import content
from grader_extensions.web.report import report_file as report_module
from grader_extensions.web.report.content import ChartBudget
from grader_extensions.web.report.report_file import environment, report_file
from grader_extensions.web.report.source_lines import (
    REMARKS_OF_LINE,
    SHOWN_CHARS,
    SHOWN_FILES,
    classed,
    remarks_by_place,
    shown_sources,
)
from tests import fakes
from tests.unit.step_counts import call_steps, pattern_steps
from tests.unit.test_linear_text import SOUPS, is_linear, patterns, submitted
from tests.unit.test_profile_views import EVIL as PROFILE_EVIL
from tests.unit.test_profile_views import PROFILE

EVIL = (
    '<script>x()</script>"onmouseover="x()" \'"><img src=x onerror=x()>]]></pre></bdi></a></title></style></textarea></svg>'
    "<svg onload=x()>{{ 7 * 1000429 }}{% raw %}--><!--\u202egnp\u2066\u200b\x1b]0;ran\x07\x00\x85\u2028"
)
BEGUN = datetime(2026, 5, 1, tzinfo=UTC)


def samples(*durations_ns):
    times = report_pb2.Samples(sample_count=len(durations_ns), sample_durations_ns=durations_ns)
    times.median_duration.FromNanoseconds(sorted(durations_ns)[len(durations_ns) // 2])
    times.median_low_duration.FromNanoseconds(min(durations_ns))
    times.median_high_duration.FromNanoseconds(max(durations_ns))
    return times


def graded(text="plain"):
    """A submission to a GPU with everything set; text is wherever a stranger, or another program, can put some."""
    name = re.sub(r"\W", "x", text)[:20]
    measurement = report_pb2.Measurement(
        workload_id=text, certified=samples(1_000_000, 1_010_000, 1_020_000), reported=samples(900_000), reported_confirmed=True,
        baselines={"eager": samples(2_000_000, 2_010_000), text: samples(3_000_000)}, reported_baselines={"eager": samples(1_800_000)},
        speedups=[report_pb2.Speedup(baseline=baseline, ratio=2, ratio_low=1.9, ratio_high=2.1) for baseline in ("eager", text)],
        clock=report_pb2.CLOCK_DEVICE_EVENTS, own_share=0.98, conditions={"throttle_reasons": text, "sm_clock_mhz": text},
        declared_work=report_pb2.DeclaredWork(moved_bytes=400_000_000, flops=40_000_000_000, dtype="float32"),
    )  # fmt: skip
    trial = report_pb2.Trial(
        workload_id=text, outcome=report_pb2.TRIAL_OUTCOME_MISMATCHED, message=text, element_count=9, mismatched_count=3,
        wrong_elements=[report_pb2.WrongElement(output=text, index=[0, 3], expected=1, actual=2)],
    )  # fmt: skip
    report = report_pb2.Report(
        verdict=report_pb2.VERDICT_ACCEPTED, reason=text, summary=text, flags=[text], output=text, libraries=[text], rule=text,
        speedups=[report_pb2.Speedup(baseline=text, ratio=2, ratio_low=1.9, ratio_high=2.1)],
        trials=[trial], measurements=[measurement],
        build=report_pb2.Build(
            outcome=report_pb2.BUILD_OUTCOME_BUILT, log=f"k.cu(2): warning #1: {text}\n{text}", reason=text, remarks=[text],
            kernels=[report_pb2.KernelUse(name=text, registers=40)],
        ),
        environment=report_pb2.Environment(
            device=text, device_kind="cuda", architecture="sm_90", isolation="docker", versions={text: text},
            ceilings={"bytes_per_s": 4e12, "flops_per_s:float32": 4e14, "flops_per_s:float32_ieee": 5e13, f"flops_per_s:{text}": 1.0},
        ),
    )  # fmt: skip
    paths = ("k.cu", f"{text}.py", text)
    submission = submission_pb2.Submission(
        name=f"submissions/{name}", problem=f"problems/{text}", competition=f"competitions/{text}", user=text, language=text,
        device_kind=text, state=submission_pb2.SUBMISSION_STATE_SUCCEEDED, report=report,
        sources=[submission_pb2.SourceFile(path=path, content=f"// {text}\nint x = 1; // {text}\n") for path in paths],
    )  # fmt: skip
    for field, seconds in (("create_time", 0), ("start_time", 1), ("end_time", 11)):
        getattr(submission, field).FromDatetime(BEGUN + timedelta(seconds=seconds))
    return submission


class Elements(html.parser.HTMLParser):
    """The elements of a page as a browser sees them, and all of its text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.tags = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_report_holds_all_that_a_reader_asks_for():
    """Verdict, why, numbers with intervals, rates by unit, samples, timeline, source with remarks, environment, raw data."""
    submission = graded()
    for step, begin_s, seconds in ((report_pb2.STEP_QUEUED, 0, 1), (report_pb2.STEP_COMPILE, 1, 6), (report_pb2.STEP_VERIFY, 7, 4)):
        submission.report.timeline.add(step=step, begin=Duration(seconds=begin_s), duration=Duration(seconds=seconds))
    text = report_file(submission)
    page = Elements(text)
    words = " ".join(page.text.split())
    for shown in (
        "ACCEPTED", "plain", "2x (1.9 to 2.1)", "1.01 ms", "1.00 ms to 1.02 ms", "396 GB/s", "10 % of memory bandwidth",
        "79 % of FP32 units, 10 % of TF32 tensor cores", "FP32 units", "warning #1: plain", "sm_90", "docker",
        "75 % at 128 and 256 and 512 threads (registers)", "compile6", "own kernels: 98 % of device time (by the kernel's own process)",
    ):  # fmt: skip
        assert shown in words, shown
    charts = [attributes["class"] for tag, attributes in page.elements if tag == "svg"]
    assert "chart samples" in charts
    assert all(attributes.get("role") == "img" for tag, attributes in page.elements if tag == "svg")
    order = [
        words.index(heading) for heading in ("Workloads Workload", "Times Medians", "Build Built", "Timeline StepSeconds", "Raw data All")
    ]
    assert order == sorted(order)


def test_a_report_needs_nothing_and_runs_nothing():
    """No script element, no handler, no address but data: and its own anchors; the policy allows its one style by its hash."""
    text = report_file(graded())
    page = Elements(text)
    assert not {"script", "iframe", "object", "embed", "form", "img", "link", "base"} & set(page.tags)
    for _, attributes in page.elements:
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes)
        for name in ("href", "src", "action", "srcset", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes
    [style] = re.findall(r"<style>(.*?)</style>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [attributes["content"] for tag, attributes in page.elements if tag == "meta" and "http-equiv" in attributes]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';") and "unsafe" not in policy and "script-src" not in policy


def elements(text):
    """How many of each element there are with each set of attributes; those of the highlighter depend on the source."""
    named = ((tag, tuple(sorted(attributes)), attributes.get("class", "")) for tag, attributes in Elements(text).elements)
    return Counter((tag, names) for tag, names, kind in named if not kind.startswith("t-"))


def test_nothing_that_strangers_write_becomes_markup():
    """Names, logs, sources, users, versions: as many elements as with harmless text. The control: without escaping there are more."""
    text, plain = report_file(graded(EVIL)), report_file(graded("x" * len(EVIL)))
    assert elements(text) == elements(plain)
    assert elements(report_file(graded(EVIL), autoescape=False)) - elements(plain)
    assert "<script>x()</script>" in Elements(text).text and "7003003" not in text


def test_no_character_hides_or_reorders_text():
    """Controls, direction overrides, zero-width ones: as escapes everywhere, also in titles and in the charts."""
    text = report_file(graded(EVIL))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\u2028\u2066]", text)
    assert "\\u202e" in text and "\\x1b" in text


def test_the_charts_of_samples_have_a_budget():
    """A page draws the first workloads and counts the others; long series are thinned, and the picture says how much."""
    submission = graded()
    submission.report.measurements.extend([submission.report.measurements[0]] * 7)
    for measurement in submission.report.measurements:
        measurement.certified.CopyFrom(samples(*range(1_000_000, 1_000_400)))
    times = content.submission(submission, ChartBudget(chart_count=2, sample_count=240, workload_count=99))["times"]
    assert len(times["plots"]) == 2 and times["left_out"] == 6 and len(times["workloads"]) == 8
    assert all("of 400 samples, one in 10 is drawn" in plot for _, plot, _ in times["plots"])  # two charts of three series
    times = content.submission(submission)["times"]
    assert len(times["plots"]) == 8 and times["left_out"] == 0 and "of 400 samples." in times["plots"][0][1]


def test_the_raw_data_is_the_submission():
    """JSON as `show --json` has it, CSV with a row a sample; what a spreadsheet takes for a formula is quoted."""
    submission = graded("=1+1")
    page = Elements(report_file(submission))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a" and attributes.get("download")]
    data, table = (base64.b64decode(link.partition("base64,")[2]).decode() for link in links)
    assert json.loads(data)["report"]["environment"]["device"] == "=1+1"
    rows = list(csv.reader(io.StringIO(table)))
    assert rows[0] == list(report_module.COLUMNS) and rows[1] == ["'=1+1", "kernel", "certified", "1", "1000000"] and len(rows) == 9


def test_a_file_is_named_by_nothing_that_a_stranger_chose():
    """The name of a download is made of the id that the server gave; another one stays an attribute's value."""
    submission = graded()
    submission.name = 'submissions/"><script>x()</script>'
    assert "script" not in Elements(report_file(submission)).tags


def test_huge_texts_are_cut():
    """A log and an output of megabytes, a source of one long line, thousands of kernels: the page stays small, and names what was cut."""
    submission = graded()
    submission.report.build.log, submission.report.output = "<" * 5_000_000, "&" * 5_000_000
    submission.sources[0].content = "<" * 5_000_000
    kernel = submission.report.build.kernels[0]
    submission.report.build.kernels.extend([kernel] * 5_000)
    page = content.submission(submission)
    text = report_file(submission)
    assert ("<" * 5_000 not in text) and f"{'&lt;' * content.LOG_CHARS}</pre>" in text and f"{'&amp;' * content.OUTPUT_CHARS}</pre>" in text
    assert "What the compiler printed, cut" in text and "What the kernel printed, cut" in text and page["sources"][0].cut
    assert text.count("75 % at 128 and 256 and 512 threads (registers)") == content.ROWS
    assert sum(len(line.code) for source in page["sources"] for line in source.lines) <= 4 * SHOWN_CHARS


@pytest.mark.parametrize(
    "files",
    [
        ["\n" * 1_000_000],  # a row of a table each
        ["/**/" * 20_000, *["1;" * 40_000] * 10],  # a span for each token
        ["x"] * 10_000,
        ["\U0010ffff" * 1_000_000],  # ten characters each, as escapes
    ],
)
def test_sources_that_are_made_to_be_large_make_no_large_page(files):
    """A megabyte that a page would show as fifty."""
    submission = graded()
    del submission.sources[:]
    for number, content_ in enumerate(files):
        submission.sources.add(path=f"{number}.cu", content=content_)
    visible = re.sub(r"data:[^\"]*", "", report_file(submission))
    assert len(visible) < 10_000_000 and ("cut" in visible or visible.count('id="source-') == SHOWN_FILES)
    assert visible.count('<span class="t-') < 100_000


def test_a_finding_is_below_its_line_and_links_to_it():
    """Errors and warnings of compilers, remarks of the build, and both lines of a race; a place that is not shown is no link."""
    submission = graded()
    report, message = submission.report, "Line 1 is written and line 2 read"
    report.build.diagnostics.add(file="k.cu", line=2, severity="error", message="no ;")
    report.build.remarks[:] = ["k.cu:2: a flag: was ignored", "plain", "k.cu:99999999999: no"]
    report.profile.findings.add(
        severity=report_pb2.SANITIZER_SEVERITY_ERROR, message=message, path="plain.py", line=1, other_path="k.cu", other_line=2
    )
    report.profile.findings.add(message="x", path="header.h", line=3)
    finding = f"error: {message}"
    remarks = remarks_by_place(report)
    assert remarks["k.cu:2"] == ["error: no ;", "a flag: was ignored", finding] and remarks["plain.py:1"] == [finding]
    page = Elements(report_file(submission))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a" and "tabindex" not in attributes]
    assert [link for link in links if link.startswith(("#L", "#F"))] == ["#L2", "#F2L1", "#L2"] and {"L2", "F2L1"} <= {
        attributes.get("id") for _, attributes in page.elements
    }
    assert page.text.index("Sources") < page.text.index(finding)


def test_remarks_of_a_line_have_a_bound():
    report = report_pb2.Report(build=report_pb2.Build(remarks=[f"k.cu:2: {number}" for number in range(99)]))
    assert len(remarks_by_place(report)["k.cu:2"]) == REMARKS_OF_LINE


def test_lines_have_the_numbers_that_compilers_give_them():
    """Blank lines, tabs, CR LF, lines that only Unicode takes for one; a docstring over lines keeps its class on each."""
    content_ = '\n\n"""a\r\nb\u2028c\x0cd"""\n\tx = 1\n'
    [source] = shown_sources([submission_pb2.SourceFile(path="k.py", content=content_)], {"k.py:5": ["here"]})
    assert [line.number for line in source.lines] == [1, 2, 3, 4, 5, 6] and source.lines[4].remarks == ["here"]
    assert [str(source.lines[index].code) for index in (2, 3)] == [
        '<span class="t-s">&#34;&#34;&#34;a</span>',
        '<span class="t-s">b\\u2028c\\x0cd&#34;&#34;&#34;</span>',
    ]
    assert str(source.lines[4].code).startswith("    x = ")


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("k.cu", "__global__ void f(float* a) {", "<k>__global__</k> <k>void</k> <f>f</f>(<k>float</k>* a) {"),
        ("k.cu", "#include <x>  // no \"end", "<p>#include</p> &lt;x&gt;  <c>// no &#34;end</c>"),
        ("k.cu", "a /* b\n\"c */ 1.5e-3f 'x'", "a <c>/* b</c>|<c>&#34;c */</c> <n>1.5e-3f</n> <s>&#39;x&#39;</s>"),
        ("k.h", 'R"(a " b)" + R"x(c)" d)x" + 1', '<s>R"(a " b)"</s> + <s>R"x(c)" d)x"</s> + <n>1</n>'.replace('"', "&#34;")),
        ("k.cu", "s = \"a\\\"b\" + c", "s = <s>&#34;a\\&#34;b&#34;</s> + c"),
        ("k.cu", "/* never closed\n__global__", "<c>/* never closed</c>|<c>__global__</c>"),
        ("k.py", "@triton.jit\ndef f(x):  # y", "<p>@triton.jit</p>|<k>def</k> <f>f</f>(x):  <c># y</c>"),
        ("k.py", 'x = r"""a\n"b" """ + \'c\'', "x = <s>r&#34;&#34;&#34;a</s>|<s>&#34;b&#34; &#34;&#34;&#34;</s> + <s>&#39;c&#39;</s>"),
        ("k.txt", "int x; // y", "int x; // y"),
    ],
)  # fmt: skip
def test_sources_are_coloured(path, text, shown):
    """Comments, strings, keywords, numbers, functions and directives, over lines too; a name that is not known is plain."""
    [source] = shown_sources([submission_pb2.SourceFile(path=path, content=text)], {})
    code = "|".join(str(line.code) for line in source.lines)
    assert re.sub(r'<span class="t-(\w)">(.*?)</span>', r"<\1>\2</\1>", code) == shown


@settings(deadline=None)
@given(st.text(alphabet="aR\"'\\/*()#@ \n1.e+-", max_size=200), st.sampled_from(["k.cu", "k.py"]))
def test_colouring_changes_no_text(text, path):
    assert "".join(part for _, part in classed(path, text)) == text


def of_sizes(clock):
    """A report of two workloads with different sizes."""
    submission = graded()
    submission.report.measurements.add().CopyFrom(submission.report.measurements[0])
    submission.report.measurements[1].declared_work.moved_bytes *= 4
    for measurement in submission.report.measurements:
        measurement.clock = clock
    return submission


def test_a_device_with_ceilings_has_a_roofline_and_sizes_have_a_chart():
    """Where either is not known, there is no chart of it; one size is no line."""
    titles = ("<title>Roofline</title>", "<title>Time over size</title>")
    submission = of_sizes(report_pb2.CLOCK_DEVICE_EVENTS)
    assert all(title in report_file(submission) for title in titles)
    assert [title in report_file(graded()) for title in titles] == [True, False]
    submission.report.environment.ceilings.clear()
    assert [title in report_file(submission) for title in titles] == [False, True]
    submission.report.measurements[0].ClearField("declared_work")
    assert not any(title in report_file(submission) for title in titles)


def test_no_table_of_an_emulated_device_has_columns_of_dashes():
    """Its times are those of a CPU, so there are neither speedups nor rates; the control has a device's clock."""
    by_device, by_host = (Elements(report_file(of_sizes(clock))).text for clock in (report_pb2.CLOCK_DEVICE_EVENTS, report_pb2.CLOCK_HOST))
    for heading in ("Speedup, certified", "Speedup by do_bench", "FLOP/byteNearest"):
        assert heading in by_device and heading not in by_host


def test_judgements_are_listed_where_there_are_several():
    submission = graded()
    submission.judgements.add(sequence=1, verdict=report_pb2.VERDICT_WRONG_ANSWER)
    assert "Judgements" not in report_file(submission)
    submission.judgements.add(sequence=2, verdict=report_pb2.VERDICT_ACCEPTED)
    assert '<th scope="row" class="bad">WRONG_ANSWER</th>' in report_file(submission) and "Judgements" in report_file(submission)


def test_no_sentence_is_in_a_table_that_scrolls():
    """A phone shows a part of a wide table, but all of the sentences on it."""
    text = report_file(graded())
    tables = "".join(re.findall(r"<table.*?</table>", text, re.S))
    for words in ("<caption", "Certified: by the judge", "own kernels:", "As the compiler says"):
        assert words not in tables and (words in text or words == "<caption")


def test_hidden_workloads_are_a_count():
    """Neither their names nor their times are in the page; the rates are of public ones."""
    submission = graded()
    hidden = submission.report.measurements.add(workload_id="hidden-1", hidden=True, certified=samples(7_654_321))
    hidden.declared_work.moved_bytes = 987_654_321
    submission.report.trials.add(workload_id="hidden-1", hidden=True, outcome=report_pb2.TRIAL_OUTCOME_PASSED)
    visible = re.sub(r"data:[^\"]*", "", report_file(submission))
    assert "And 1 hidden, of which 1 passed." in visible and not re.search("hidden-1|7.65|988", visible)


def test_what_is_not_graded_has_a_report_too():
    failed = submission_pb2.Submission(name="submissions/x", problem="problems/p", state=submission_pb2.SUBMISSION_STATE_FAILED)
    failed.error.message = "no <b>box</b>"
    text = report_file(failed)
    assert "the grader failed" in text and "no &lt;b&gt;box&lt;/b&gt;" in text and "ACCEPTED" not in text


@pytest.mark.parametrize("escaped", [True, False])
def test_the_page_escapes_every_text_of_a_profile(escaped) -> None:
    """The control is the same page without escaping."""
    report = replace(fakes.report(), profile=PROFILE)
    message = submission_pb2.Submission(
        name="submissions/s1", problem="problems/sum", mode="MODE_PROFILE", report=messages.report_to_proto(report, Redactor({}))
    )
    files = [{"name": PROFILE_EVIL, "tool": PROFILE_EVIL, "size": "1 B", "available": True}]
    of_site = {"site": True, "artifacts": files, "problem_known": True, "running": False, "live": None}
    of_site |= {"notice": "", "reader": {"user": "", "can_sign_in": False, "has_submissions": False, "can_submit": False}}
    context = {**content.submission(message), **of_site}
    text = environment(escaped).get_template("submission.html").render(context)
    assert ("<script>" in text) is not escaped and ("\x1b[2J" in text) is not escaped
    assert "31 x 1 x 1" in text and "not available" in text


def test_counts_of_accesses_are_the_terminals_tables() -> None:
    """The page shows what the command line does."""
    profile = to_message(report_pb2.Profile, replace(PROFILE, access_counts=COUNTS))
    text = report_file(submission_pb2.Submission(report=report_pb2.Report(profile=profile)))
    counts = access_counts.table(profile.access_counts, row_limit=1)
    assert counts is not None and escape(counts.title) in text and escape(access_counts.NOTE) in text


READERS: dict[str, Callable[[str], object]] = {
    "C++": lambda text: shown_sources(submitted(text).sources, {}),
    "Python": lambda text: shown_sources(submitted(text, "k.py").sources, {}),
    "remarks": lambda text: remarks_by_place(report_pb2.Report(build=report_pb2.Build(remarks=[text], mismatch=text))),
}
PATTERNS = {pattern: where for where, pattern in patterns(submit_page)}


@pytest.mark.parametrize("name", READERS)
def test_a_page_is_made_in_linear_time(name: str) -> None:
    """Lines of Python that are executed, and characters that functions return."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: call_steps(lambda: READERS[name](text)), soup, 200)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.get)
def test_a_pattern_is_matched_in_linear_time(pattern: re.Pattern[str]) -> None:
    """Characters that a backtracking matcher tries."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: pattern_steps(pattern, text), soup, 100)]
