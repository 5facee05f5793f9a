"""Print what pip has to install, from pyproject.toml: all that a server needs and is built with, or one extra.

    python3 requirements.py            # the package with its extra `all`, and setuptools, which builds it
    python3 requirements.py box        # the extra `box`

The images install this before their sources are copied, so that a change of the sources installs no package again.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def requirements(config: dict[str, Any], extra: str | None = None) -> list[str]:
    """Return the requirements of an extra, or of the package with its extra `all`. Those of the package's own extras replace them.

    Raises KeyError for an extra that is not there.
    """
    project = config["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["all"]] if extra is None else extras[extra]
    names = [] if extra is not None else list(config["build-system"]["requires"])
    extra_of_package = re.compile(re.escape(project["name"]) + r"\[(\w+)\]$")
    for requirement in listed:
        named = extra_of_package.match(requirement)
        names += [requirement] if named is None else requirements(config, named[1])
    return names


def main() -> None:
    """Print one requirement in each line."""
    path = Path("pyproject.toml")
    print("\n".join(requirements(tomllib.loads(path.read_text("utf-8")), *sys.argv[1:2])))


if __name__ == "__main__":
    main()
