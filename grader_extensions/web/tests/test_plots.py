"""The SVG that we draw: its structure, where values are, and that no text of others becomes markup."""

import re
from xml.etree import ElementTree

import pytest

from grader_extensions.web.plots.charts import LEFT, WIDTH, ChartAxis, ChartSeries, Scale, line_chart, samples_chart

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</title></svg><script>x()</script>\"onload='x()'\u202e\x1b[31m\x00]]>&"
SIZES = [256.0, 512.0, 1024.0, 2048.0]


def parsed(text):
    return ElementTree.fromstring(text)


def of_class(root, name):
    return [element for element in root.iter() if name in element.get("class", "").split()]


def marks(root, index):
    """Return the marks of a series, without the one of the legend."""
    return [mark for mark in of_class(root, f"mark-{index}") if "point" in mark.get("class") and mark.find(f"{SVG}title") is not None]


def chart(name="kernel", *, title="Rates", **changes):
    series = [
        ChartSeries(name=name, xs=SIZES, ys=[1.0, 2.0, 3.0, 4.0], lows=[0.9, 1.9, 2.9, 3.9], highs=[1.1, 2.1, 3.1, 4.1]),
        ChartSeries(name="eager", xs=SIZES, ys=[1.0, 1.0, 1.0, 1.0]),
    ]
    wanted = {"x": ChartAxis(label="N", log=True), "y": ChartAxis(label="GB/s")}
    return line_chart(series, title=title, description=title, **(wanted | changes))


def every_kind(name):
    """Return a picture of each kind, with name wherever a text of others can be."""
    return {
        "lines": chart(name, title=name),
        "samples": samples_chart({name: [1.0, 2.0], "eager": [3.0]}, title=name, label=name, value_text=lambda value: f"{value} {name}"),
    }


@pytest.mark.parametrize("kind", list(every_kind("x")))
def test_every_picture_is_named_described_and_allowed_by_a_strict_policy(kind):
    """role=img, title and desc first, and neither a style nor a script nor a link; every element has a class."""
    root = parsed(every_kind("kernel")[kind])
    assert root.get("role") == "img" and kind in root.get("class").split()
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"] and all(child.text for child in list(root)[:2])
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in ("svg", "title", "desc", "line", "path", "rect", "text")
        assert not {"style", "href", "id"} & set(element.attrib) and not any(name.startswith("on") for name in element.attrib)


@pytest.mark.parametrize("kind", list(every_kind("x")))
def test_text_of_others_is_text_in_every_picture(kind):
    """Markup, control characters and direction overrides are shown; the elements are those of a harmless name of that length."""
    text = every_kind(EVIL)[kind]
    plain = every_kind("x" * len(EVIL))[kind]
    assert "<script" not in text and not re.search("[\u202e\x1b\x00]", text)
    assert [element.tag for element in parsed(text).iter()] == [element.tag for element in parsed(plain).iter()]
    assert "<script>x()</script>" in "".join(parsed(text).itertext())


def test_a_line_has_a_band_and_a_mark_for_each_value():
    root = parsed(chart())
    points = marks(root, 0)
    assert points[0].find(f"{SVG}title").text == "kernel: 1 (0.9 to 1.1) GB/s at 256 N"
    [band] = of_class(root, "band")
    ends = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", band.get("d"))]
    places = [tuple(map(float, re.match(r"M([\d.]+) ([\d.]+)", point.get("d")).groups())) for point in points]
    for (x, y), low, high in zip(places, ends[:4], reversed(ends[4:]), strict=True):
        assert x == low[0] == high[0] and high[1] < y < low[1] and LEFT <= x <= WIDTH


def test_a_value_that_is_not_there_leaves_a_gap():
    """NaN, infinities, and zeros on a logarithmic axis; a chart of nothing still has its axes."""
    for missing, axis in (
        (float("nan"), ChartAxis(label="y")),
        (float("inf"), ChartAxis(label="y")),
        (0.0, ChartAxis(label="y", log=True)),
    ):
        series = [ChartSeries(name="a", xs=[1, 2, 3, 4, 5], ys=[1.0, 2.0, missing, 4.0, 5.0])]
        root = parsed(line_chart(series, title="t", description="d", x=ChartAxis(label="x"), y=axis))
        lines = [path for path in of_class(root, "line") if path.tag == f"{SVG}path"]
        assert [line.get("d").count("L") for line in lines] == [1, 1]
    empty = line_chart([], title="t", description="d", x=ChartAxis(label="x", log=True), y=ChartAxis(label="y"))
    assert len(of_class(parsed(empty), "axis")) == 2


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0.0, 10.0, False, [0, 2, 4, 6, 8, 10]),
        (0.0, 4100.0, False, [0, 1000, 2000, 3000, 4000]),
        (0.9, 1100.0, True, [1, 10, 100, 1000]),
        (1.0, 60.0, True, [1, 2, 5, 10, 20, 50]),
        (1e-3, 1e12, True, [1e-3, 1e0, 1e3, 1e6, 1e9, 1e12]),
        (41.0, 49.0, True, [42, 44, 46, 48]),
    ],
)
def test_ticks_are_round_and_few(low, high, log, ticks):
    """Multiples of 1, 2 and 5; on a logarithmic axis decades, finer where those are few."""
    assert Scale(low=low, high=high, start=0, end=1, log=log).ticks() == pytest.approx(ticks)


def places_of(path):
    """Where the dots of a path are, whose moves are relative after the first."""
    moves = [tuple(map(float, re.findall(r"-?[\d.]+", subpath.split("h")[0]))) for subpath in re.split("[Mm]", path)[1:]]
    return [(round(sum(x for x, _ in moves[:at]), 1), round(sum(y for _, y in moves[:at]), 1)) for at in range(1, len(moves) + 1)]


def test_samples_are_drawn_in_their_order():
    """Within the frame, linear where times are alike and logarithmic where they are not; of long series one sample in n is drawn."""

    def draw(samples):
        return samples_chart(samples, title="t", label="time", value_text=lambda value: f"{value:g} ns")

    text = draw({"kernel": [float(duration) for duration in range(1000, 2000)], "eager": [1500.0] * 3})
    dots = of_class(parsed(text), "dots")[0].get("d")
    places = places_of(dots)
    assert places == sorted(places) and [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert len(places) == 334 and "one in 3 is drawn" in text and "of 1000 samples" in text and "log scale" not in text
    assert "log scale" in draw({"kernel": [100.0, 100_000.0]})
    assert draw({"kernel": [], "eager": []}) == "" and draw({}) == ""
    assert "<svg" in draw({"kernel": [0.0]}) and "<svg" in draw({"kernel": [7.0]})
    assert "2 of 4 samples of kernel took no longer than an empty call" in draw({"kernel": [0.0, -5.0, 1000.0, 2000.0]})


def test_the_median_is_that_of_the_samples_as_they_are():
    """Samples of 0 are drawn at the bottom and count as 0: the chart says the median that the table beside it does."""
    root = parsed(samples_chart({"kernel": [0.0, 0.0, 10.0, 15.0]}, title="t", label="time", value_text=lambda value: f"{value:g} ns"))
    assert [label.text for label in of_class(root, "legend")] == ["kernel: 5 ns"] and "median 5 ns" in root.find(f"{SVG}desc").text
    assert max(y for _, y in places_of(of_class(root, "dots")[0].get("d"))) > float(of_class(root, "median")[0].get("y1"))


def test_points_and_lines_can_be_drawn_alone():
    """A roofline has points of workloads, and lines of ceilings without marks; title and device stand above."""
    series = [ChartSeries(name="kernel", xs=SIZES, ys=SIZES, joined=False), ChartSeries(name="roof", xs=SIZES, ys=SIZES, marked=False)]
    root = parsed(
        line_chart(series, title="Roofline", subtitle="on a GPU", description="d", x=ChartAxis(label="x"), y=ChartAxis(label="y"))
    )
    assert (len(marks(root, 0)), len(marks(root, 1))) == (4, 0)
    assert [line.get("class") for line in of_class(root, "line") if line.tag == f"{SVG}path"] == ["line mark-1"]
    assert [text.text for text in root.iter(f"{SVG}text")][:2] == ["Roofline", "on a GPU"]
