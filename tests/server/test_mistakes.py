"""Answers of `grader-cli` to 38 mistakes: one sentence with the remedy, never a library's own words.

What a compiler and a judge say of wrong kernels is in tests/field/cases.toml.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from grader.cli.main import app
from tests import fakes
from tests.threaded_server import certificates, threaded_server

FILES = {
    "right.cu": fakes.source("accept"),
    "empty.cu": "",
    "binary.cu": b"\xff\xfe\x00",
    "big.cu": "//" + "x" * (1 << 21),
    "notes.txt": "hello",
    "broken.json": "{",
}
# Words of libraries and of the wire that nobody should have to read.
RAW = re.compile(r"Traceback|Errno|StatusCode|grpc|ipv[46]:|SSL_|sources\[|exception|errno|None\b|<[a-z_.]+ object", re.IGNORECASE)

# What is typed after `grader-cli`, DONE standing for the id of a submission that is graded; the exit code; what the answer contains.
SUBMIT = "submit right.cu --problem sum"
MISTAKES = [
    ("submit nope.cu --problem sum", 2, "nope.cu does not exist; check the path"),
    ("submit dir --problem sum", 2, "dir is a directory; name the files in it"),
    ("submit right.cu right.cu --problem sum", 2, "a file is named twice; name each once"),
    ("submit right.cu", 2, "give --problem NAME ('grader-cli problems list' shows them)"),
    ("submit right.cu --problem sun", 2, "there is no problem 'sun'; take one of: sum. Did you mean 'sum'?"),
    ("submit empty.cu --problem sum", 2, "empty.cu is empty; leave the file out, or write the kernel into it"),
    ("submit binary.cu --problem sum", 2, "binary.cu is not UTF-8 (byte 0); save it as UTF-8"),
    ("submit big.cu --problem sum", 2, "2,097,154 bytes, over the 1,048,576 allowed; leave out what is not source text"),
    ("submit notes.txt --problem sum", 2, "no source is of a known kind (.cu, .cpp, .cc, .cxx, .py); name the file so"),
    ("submit broken.json --problem sum", 2, "broken.json:1 is not JSON from column 2 on; fix the line"),
    (f"{SUBMIT} --language cobol", 2, "does not take 'cobol'; take one of: torch_extension, cuda, python"),
    (f"{SUBMIT} --entry 1x", 2, "'1x' is not a function name; write letters, digits and '_', or leave it out"),
    (f"{SUBMIT} --device cuda", 2, "no device of kind 'cuda' is here; leave it out or take one of: emulated"),
    (f"{SUBMIT} --device gpu", 2, "'gpu' is not a device; write auto, emulated, cuda, cuda:NAME"),
    (f"{SUBMIT} --mode bench", 2, "'bench' is not one of 'test', 'benchmark'"),
    (f"{SUBMIT} --measure-s 0", 2, "is 0 s; it has to be from 0.1 s to 30 s"),
    (f"{SUBMIT} --annotate x", 2, "'x' has no key; write KEY=VALUE"),
    (f"{SUBMIT} --tag a$b", 2, "'a$b' is not a tag; write 1 to 64 letters, digits and characters of"),
    (f"{SUBMIT} --parent zzzz", 2, "no submission of yours on {address} whose id begins with 'zzzz'; list them with: grader-cli list"),
    (f"{SUBMIT} --out files", 2, "only a profile leaves files, when it has ended; add --mode profile"),
    ("submt right.cu", 2, "No such command 'submt'. Did you mean 'submit'?"),
    (f"{SUBMIT} --modee test", 2, "No such option: --modee (Possible options: --device, --mode)"),
    ("list --verdict RIGHT", 2, "'RIGHT' is not a verdict; take some of ACCEPTED, COMPILE_ERROR"),
    ("show zzzz", 2, "no submission of yours on {address} whose id begins with 'zzzz'; list them with: grader-cli list"),
    ("cancel DONE", 2, "is SUCCEEDED already; only queued and running ones can be cancelled"),
    ("show DONE --source --out right.cu", 2, "right.cu is not a directory that can be used: File exists; name another directory"),
    ("show DONE --files", 0, "has left no files; `grader-cli submit --mode profile` makes some"),
    (f"{SUBMIT} --annotate a=1 --annotate a=2", 2, "the key 'a' is given twice; give each once"),
    ("list --verdict acepted", 2, "Did you mean 'ACCEPTED'?"),
    (f"{SUBMIT} --sandbox proces", 2, "Did you mean 'process'?"),
    ("list --server localhost:1", 3, "no answer from localhost:1: nothing listens there; check host and port, and that grader-server runs"),
    ("list --server unix:/nowhere/s", 3, "the socket does not exist; check the path, and that grader-server runs"),
    ("list --server nohost.invalid:1", 3, "no host has that name; check its spelling"),
    ("list --server :", 2, "':' is not a server address; write HOST:PORT, such as localhost:50551"),
    ("list --server https://{address}", 3, "it does not speak TLS; check the port, or write http://HOST:PORT"),
    ("list --server http://{tls}", 3, "it closed the connection, as a server does that wants TLS (write https://HOST:PORT) or has"),
    ("list --server https://{tls}", 3, "certificate"),
    ("login --server {address}", 2, "no key came; paste it at the prompt, or pipe it: grader-cli login --server HOST:PORT < FILE"),
]  # fmt: skip
KEYS = [
    ("", "no API key was sent; this server requires one; store a key with `grader-cli login`, or set GRADER_KEY"),
    ("hello", "what was sent is not a grader key; a key begins with 'grader_'"),
    ("grader_000000000000_" + "0" * 43, "store a key with `grader-cli login`"),
    ("READ", "this key does not have the scope 'submit'; ask an administrator for one that has"),
]


@contextmanager
def servers(root, **changes):
    """Addresses and keys of a server, and of one that speaks TLS."""
    (root / "tls").mkdir()
    with threaded_server(root / "open", **changes) as here, threaded_server(root / "tls", **certificates(root / "tls")) as secure:
        yield {"address": here.address, "tls": secure.address, "KEY": here.key("alice"), "READ": here.key("bob", "--scopes", "read")}


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    with servers(tmp_path_factory.mktemp("mistakes")) as served:
        yield served


@pytest.fixture
def grader_cli(facts, tmp_path, monkeypatch):
    """Run a command in a directory with FILES."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "dir").mkdir()
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "conf"), "GRADER_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "300"}

    def run(words, key=facts["KEY"]):
        return CliRunner().invoke(app, words.split(), input="", env={**environment, "GRADER_KEY": key, "GRADER_SERVER": facts["address"]})

    return run


@pytest.fixture(scope="module")
def graded():
    """The id of a submission that is graded, made when it is first asked for."""
    return {}


@pytest.mark.parametrize(("words", "code", "answer"), MISTAKES, ids=[words for words, _, _ in MISTAKES])
def test_a_mistake_is_answered_with_its_remedy(facts, grader_cli, graded, words, code, answer):
    """In one sentence, on the command's own terms."""
    check_answer(facts, grader_cli, graded, words, code, answer)


def check_answer(facts, grader_cli, graded, words, code, answer):
    if "DONE" in words and "id" not in graded:
        graded["id"] = json.loads(grader_cli(f"{SUBMIT} --json").stdout)["name"].partition("/")[2]
    ended = grader_cli(words.replace("DONE", graded.get("id", "")).format_map(facts))
    output = " ".join(re.sub("[│╭╮╰╯─]", " ", ended.output).split())
    assert answer.format_map(facts) in output, output
    assert ended.exit_code == code and not RAW.search(output), output


@pytest.mark.parametrize(("key", "answer"), KEYS)
def test_a_wrong_key_is_answered_with_its_remedy(facts, grader_cli, key, answer):
    """And not repeated."""
    ended = grader_cli(SUBMIT, facts.get(key, key))
    assert ended.exit_code == 2 and answer in ended.output and (not key or key not in ended.output), ended.output
