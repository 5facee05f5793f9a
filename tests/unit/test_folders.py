"""README names every folder of the product. That each says what it owns is a rule of ruff (D104)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = [path for half in ("grader", "sandbox") for path in (ROOT / half).iterdir() if path.is_dir() and not path.name.startswith("_")]


def test_readme_names_every_folder_once():
    table = re.findall(r"^\| (`(?:grader|sandbox)/.+?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for row in table for name in re.findall(r"`([\w/]+)`", row)) == sorted(str(path.relative_to(ROOT)) for path in PATHS)
