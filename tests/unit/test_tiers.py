"""Which tests a change asks for: the table in tests/tiers.toml, and what it is read for."""

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[2]
TABLE = tiers.read_table()
GRADING = "reduced:tests/exploits,tests/honest,tests/conformance,tests/judge"
BOXES = "reduced:tests/exploits,tests/honest,tests/containment,tests/extensions,tests/builds"
NATIVE = "reduced:tests/exploits,tests/honest,tests/conformance,tests/extensions,tests/builds,tests/judge"


@cache
def tracked() -> tuple[str, ...]:
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return tuple(path for path in done.stdout.splitlines() if (ROOT / path).exists())


def scope_of(*paths: str) -> str:
    return tiers.decide(paths, TABLE).scope


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("sandbox/judge/lane.py", GRADING),
        ("sandbox/protocol/gate.py", GRADING),
        ("grader/grading/pipeline.py", GRADING),
        ("grader/dispatch/lanes.py", GRADING),
        ("grader/verdict/fold.py", GRADING),
        ("sandbox/box_init.py", BOXES),
        ("sandbox/profiles/seccomp.json", BOXES),
        ("grader/isolation/docker.py", BOXES),
        ("grader/grading/build.py", BOXES),
        ("sandbox/native/light/torch/extension.h", NATIVE),
        ("tests/exploits/attacks/some_attack.cu", "all"),
        ("tests/harness/grading.py", "all"),
        ("constraints.txt", "all"),
        (".ci/run", "all"),
        ("grader/unheard_of.py", "all"),
        ("unheard_of/README", "all"),
        ("grader/web/pages.py", "reduced"),
        ("grader/plots/lines.py", "reduced"),
        ("grader/cli/submit.py", "reduced"),
        ("docs/decisions/0003-boxes.md", "reduced"),
        ("CHANGELOG.md", "reduced"),
        ("grader/ledger/queue.py", "reduced"),
        ("tests/unit/test_wire.py", "reduced+tests/unit/test_wire.py"),
        ("tests/e2e/test_crash.py", "reduced:tests/e2e+tests/e2e/test_crash.py"),
        ("tests/exploits/test_exploits.py", "all+tests/exploits/test_exploits.py"),
        ("kernels_examples/vector_add/in_place.cu", "reduced:tests/e2e"),
        ("tests/containment/README.md", "reduced:tests/containment"),
    ],
)
def test_a_change_asks_for(path, scope):
    assert scope_of(path) == scope


def test_one_path_that_asks_for_everything_is_enough_and_is_named():
    decision = tiers.decide(["CHANGELOG.md", "grader/cli/submit.py", "constraints.txt"], TABLE)
    assert decision == tiers.Decision(scope="all", reason="constraints.txt changed (environment)")


def test_a_path_that_no_rule_names_is_said_to_be_the_reason():
    assert tiers.decide(["unheard_of"], TABLE) == tiers.Decision(scope="all", reason="unheard_of changed, which no rule names")


def test_what_several_changes_ask_for_adds_up():
    assert scope_of("grader/web/pages.py", "tests/containment/conftest.py", "kernels_examples/vector_add/in_place.cu") == (
        "reduced:tests/containment,tests/e2e"
    )


def test_every_pattern_matches_a_file():
    """A pattern of what was renamed would hide that its files are in no rule, or in another one."""
    missing = [pattern for rule in TABLE.rules for pattern in rule.paths if not any(tiers.fnmatchcase(path, pattern) for path in tracked())]
    assert missing == []


def test_every_beginning_of_slow_tests_is_a_paths():
    assert sorted(beginning for beginning in TABLE.slow if not any(path.startswith(beginning) for path in tracked())) == []


def test_every_directory_of_the_table_has_tests():
    named = set(TABLE.parts).union(*(rule.whole or () for rule in TABLE.rules))
    assert sorted(directory for directory in named if not any((ROOT / directory).glob("test_*.py"))) == []
    assert sorted(named - TABLE.parts.keys()) == []


def test_all_tests_of_a_changed_file_run():
    """But for those that are marked as sampled, a new test runs before it lands."""
    files = [path for path in tracked() if tiers.is_tests(path)]
    assert len(files) > 100
    assert [path for path in files if tiers.Scope.parse(scope_of(path), TABLE).sample_of(f"{path}::test", slow=True) != 1] == []


@pytest.mark.parametrize("scope", ["all", "reduced", "reduced:tests/e2e"])
def test_of_slow_tests_a_part_runs_whatever_changed(scope):
    parsed = tiers.Scope.parse(scope, TABLE)
    for beginning, nth in TABLE.slow.items():
        assert parsed.sample_of(f"{beginning}/test_x.py::test", slow=True) >= nth
    assert tiers.Scope.parse("all", TABLE).sample_of("tests/e2e/test_x.py::test", slow=False) == 1


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(path: str, modules: dict[str, str]) -> set[str]:
    """The files of the product that a file imports."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {modules[name] for name in names if name in modules}


def test_what_grading_imports_asks_for_all_attacks():
    """A file that decides on a verdict is in no rule that leaves attacks or honest kernels out, however it came to be imported."""
    modules = {module_of(path): path for path in tracked() if path.endswith(".py") and path.startswith(("grader/", "sandbox/"))}
    attacked = [rule for rule in TABLE.rules if rule.name in ("grading", "boxes and builds")]
    found = {path for path in modules.values() if any(rule.covers(path) for rule in attacked)}
    found |= {path for path in tracked() if path.startswith(("tests/harness/", "tests/exploits/")) and path.endswith(".py")}
    todo = list(found)
    while todo:
        new = imports(todo.pop(), modules) - found
        found |= new
        todo += new
    assert len(found) > 100
    scopes = {path: tiers.Scope.parse(scope_of(path), TABLE) for path in found}
    assert sorted(path for path, scope in scopes.items() if {"tests/exploits", "tests/honest"} & scope.parts.keys()) == []


def test_a_scope_is_read_as_it_was_written():
    scope = tiers.Scope.parse("reduced:tests/e2e+tests/exploits/test_controls.py,tests/unit/test_lane.py", TABLE)
    assert scope.sample_of("tests/e2e/test_crash.py::test", slow=False) == 1
    assert scope.sample_of("tests/exploits/test_exploits.py::test[x]", slow=True) == TABLE.parts["tests/exploits"]
    assert scope.sample_of("tests/exploits/test_controls.py::test", slow=True) == 1
    assert scope.sample_of("tests/unit/test_lane.py::test[x]", slow=True) == 1
    assert scope.extended == {"tests/e2e", "tests/exploits", "tests/unit"}
    assert tiers.Scope.parse("all", TABLE) == tiers.Scope(kind="all", parts={}, slow=TABLE.slow)


@pytest.mark.parametrize(("text", "words"), [("redu", "unknown scope 'redu'"), ("reduced:tests/e2", "'tests/e2' is not one of")])
def test_an_unknown_scope_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        tiers.Scope.parse(text, TABLE)


@pytest.fixture
def checkout(tmp_path):
    """A repository with one commit; `commit` adds one that changes these files, and returns its name."""

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
        return tiers.git(*identity, *words, root=tmp_path).strip()

    def commit(*paths):
        for path in paths:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(len(file.read_text()) if file.exists() else 0))
        git("add", ".")
        git("commit", "-q", "-m", "change", "--allow-empty")
        return git("rev-parse", "HEAD")

    git("init", "-q", ".")
    return tmp_path, commit, git


def test_the_last_commit_that_passed_is_the_base(checkout):
    """Commits of other branches, and of other clones, are passed over."""
    root, commit, git = checkout
    first, second = commit("a"), commit("docs/b.md")
    git("checkout", "-q", "-b", "other", first)
    other = commit("c")
    git("checkout", "-q", "-")
    passed = root / ".git" / "passed"
    passed.write_text(f"{first}\n{second}\n{other}\n{'0' * 40}\n")
    assert tiers.last_passed(passed, root) == second
    assert tiers.last_passed(root / "absent", root) is None


def test_changes_are_committed_ones_and_those_that_are_not(checkout):
    root, commit, _ = checkout
    base = commit("a", "b", "d")
    commit("a")
    (root / "b").rename(root / "c")
    (root / "d").unlink()
    assert sorted(tiers.changed_paths(base, root)) == ["a", "b", "c", "d"]


def test_without_a_known_base_everything_runs(checkout):
    root, commit, git = checkout
    first = commit("docs/a.md")
    assert tiers.decide_here(None, root / "absent", root).scope == "all"
    assert tiers.decide_here("0" * 40, None, root).scope == "all"
    git("checkout", "-q", "--orphan", "other")
    commit("docs/a.md")
    assert tiers.decide_here(first, None, root).scope == "all"


def test_a_light_change_after_one_that_passed_is_light_and_after_an_untested_one_is_not(checkout):
    root, commit, _ = checkout
    passed = root / ".git" / "passed"
    passed.write_text(commit("sandbox/a.py"))
    commit("docs/b.md")
    light = tiers.decide_here(None, passed, root)
    assert (light.scope, "compared with" in light.reason) == ("reduced", True)
    commit("sandbox/a.py")
    commit("docs/b.md")
    assert tiers.decide_here(None, passed, root).scope == GRADING


def test_the_command_prints_scope_and_reason(capsys, tmp_path):
    tiers.main(["--base", "0" * 40])
    scope, reason = capsys.readouterr().out.splitlines()
    assert scope == "all"
    assert "not in the history" in reason
