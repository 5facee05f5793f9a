"""`examples/fill_competition.py` against a server."""

import sys

from grader.api.client import GraderClient
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from tests import fakes
from tests.server.competition_files import toml
from tests.server.test_example_clients import ROOT, files, output  # noqa: F401  # a fixture


async def test_a_competition_is_filled_with_users_and_their_submissions(settings, files, place):  # noqa: F811  # a fixture
    """A user each from a file of keys; what each submitted is on the board."""
    (place / "competition.toml").write_text(toml("spring"))
    kernels = files / "kernels" / "sum"
    kernels.mkdir(parents=True)
    for order in ("accept", "wrong"):
        (kernels / f"{order}.cu").write_text(fakes.source(order))
    async with Ledger.open(settings.ledger) as ledger:
        keys = [(user, (await ledger.keys.create(user, frozenset({Scope.SUBMIT, Scope.READ})))[1]) for user in ("ann", "ben")]
    (files / "keys.csv").write_text("user,key_id,key,note\n" + "".join(f"{user},id,{key},\n" for user, key in keys))
    there = settings.model_copy(update={"listen": "127.0.0.1:0", "auth": "keys", "competitions": (place / "competition.toml",)})
    async with serving(there, fakes.wiring()) as running:
        script = ROOT / "examples" / "fill_competition.py"
        code, out, error = await output(
            sys.executable, script, "spring", files / "keys.csv", files / "kernels", GRADER_SERVER=running.address
        )
        assert (code, error) == (0, "") and len(out.splitlines()) == 4
        async with GraderClient(running.address, key=keys[0][1]) as client:
            board = await client.get_leaderboard("competitions/spring", problem="problems/sum")
    assert sorted(entry.user for entry in board.entries) == ["ann", "ben"]
