"""An isolation named `same_host`: the one of grader that has no namespaces, under another name."""

from __future__ import annotations

from grader.isolation.process import ProcessIsolation
from grader.isolations import IsolationInfo

INFO = IsolationInfo(
    name="same_host",
    implementation="formula_isolation:SameHost",
    description="same_host: UNSAFE, an example of an isolation that another package brings",
    safe=False,
)


class SameHost(ProcessIsolation):
    """Boxes without namespaces. A class of its own implements `grader.isolation.Isolation`."""

    NAME = INFO.name
