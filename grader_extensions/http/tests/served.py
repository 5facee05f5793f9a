"""A server with a web port; calls of every method of it by gRPC, and the same by curl and by a browser."""

import asyncio
import base64
import json
import re
import shutil
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

import grpc
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_status import rpc_status

from grader.artifacts import SubmissionFiles
from grader.ledger import Ledger
from grader.model import Scope
from grader.problems.store import Problems
from grader.server.auth import PREFIX
from grader.server.running import serving
from grader.v1 import grader_service_pb2
from grader.verdict.fold import fold
from grader_extensions.competitions.competition_file import problem_for
from grader_extensions.competitions.store import Competitions
from grader_extensions.http.gateway import SERVICE
from grader_extensions.http.rules import VARIABLE, rules_of
from sandbox.protocol import wire
from tests import fakes
from tests.requests import new_submission
from tests.server.competition_files import toml

METHODS = {method.name: method for method in SERVICE.methods}
RULES = {rule.method.name: rule for rule in reversed(list(rules_of(SERVICE)))}
# A call by a script of a page; a stream is read piece by piece as it comes. The body is text in base64, for it may be a file.
FETCH = """async ([method, url, body, headers]) => {
  if (body !== null) headers["Content-Type"] = "application/json";
  const answer = await fetch(url, {method, body, headers}), pieces = [];
  for await (const piece of answer.body) pieces.push(piece);
  const reader = new FileReader();
  const read = new Promise((resolve) => { reader.onload = () => resolve(reader.result.split(",")[1] ?? ""); });
  reader.readAsDataURL(new Blob(pieces));
  return [answer.status, Object.fromEntries(answer.headers), await read];
}"""
TRACE = b"<script>alert(1)</script>\r\n" * 20_000
USER = "alice"


@dataclass
class Answer:
    """status: HTTP's. data: JSON, the events' data, or bytes. headers: by their names in small letters."""

    status: int
    headers: dict[str, str]
    data: object


@dataclass
class Served:
    """key: with all scopes, of USER, whose is the submission `name` with the file `artifact`."""

    address: str
    web: str
    ledger: Ledger
    key: str
    name: str

    async def make_key(self, user=USER, scopes=(Scope.SUBMIT, Scope.READ)):
        return (await self.ledger.keys.create(user, frozenset(scopes)))[1]

    @property
    def bearer(self):
        """The header of the key, for curl."""
        return "-H", f"Authorization: Bearer {self.key}"

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.key}"}

    async def grpc(self, name, request, key=None):
        """Call a method; the messages that came as JSON, or the status."""
        method, metadata = METHODS[name], [("authorization", f"Bearer {self.key if key is None else key}")]
        read = GetMessageClass(method.output_type).FromString
        async with grpc.aio.insecure_channel(self.address) as channel:
            try:
                call = channel.unary_stream if method.server_streaming else channel.unary_unary
                answer = call(f"{PREFIX}{name}", response_deserializer=read)(request.SerializeToString(), metadata=metadata, timeout=60)
                return [message async for message in answer] if method.server_streaming else await answer
            except grpc.aio.AioRpcError as error:
                return rpc_status.from_call(error)

    async def http(self, name, request, *options, rule=None):
        """The same over HTTP; options: of curl."""
        verb, url, body = http_request(rule or RULES[name], request, self.web)
        return await self.curl(*(options or self.bearer), "-X", verb, *(() if body is None else ("--json", body)), url)

    async def fetch(self, tab, name, request):
        """The same by a script of the page in this tab."""
        status, headers, data = await tab.evaluate(FETCH, [*http_request(RULES[name], request, self.web), self.headers])
        return answer_of(status, headers, base64.b64decode(data))

    async def curl(self, *options):
        """Return curl's answer: the last status, headers and data."""
        process = await asyncio.create_subprocess_exec(
            shutil.which("curl"), "-sS", "--path-as-is", "--max-time", "60", "-D", "/dev/stderr", *map(str, options), stdout=-1, stderr=-1
        )
        data, head = await process.communicate()
        head = head.decode().replace("\r", "").strip().rpartition("\n\n")[2].splitlines()
        assert head and head[0].startswith("HTTP/"), head
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        return answer_of(int(head[0].split()[1]), headers, data)

    def url(self, path):
        return f"http://{self.web}{path}"


def answer_of(status, headers, data):
    """The answer with these bytes."""
    kind = headers.get("content-type", "")
    if kind.startswith("application/json"):
        data = json.loads(data)
    elif kind == "text/event-stream":
        data = events(data.decode())
    return Answer(status, headers, data)


def http_request(rule, request, web):
    """The verb, the address and the body, if there is one, of a request by a rule."""
    path = VARIABLE.sub(lambda variable: quote(getattr(request, variable[1])), rule.path)
    data = json_format.MessageToDict(request, preserving_proto_field_name=True)
    for variable in VARIABLE.finditer(rule.path):
        data.pop(variable[1], None)
    if rule.has_body:
        return rule.verb, f"http://{web}{path}", json.dumps(data)
    query = [(name, {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value) for name, value in data.items()]
    return rule.verb, f"http://{web}{path}?{urlencode(query, doseq=True)}", None


def events(text):
    """Events of a stream: a dict of fields each; data as JSON."""
    blocks = (re.findall(r"^(\w+): (.*)$", block, re.MULTILINE) for block in text.split("\n\n"))
    return [{**fields, "data": json.loads(fields["data"])} for fields in map(dict, blocks) if fields]


@asynccontextmanager
async def served(settings, place, grade=None, *, capacity=4, file_bytes=TRACE, **changes):
    """Serve, with a graded submission to the competition `spring`. file_bytes: of the file that it left."""
    secret = f'secret_seed = "{"0" * 32}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = 777 }}\n'
    (place / "competition.toml").write_text(toml("spring", -3, 1, secret, problems=("sum", "other")))
    usual = {"listen": "127.0.0.1:0", "web": "127.0.0.1:0", "auth": "keys", "competitions": (place / "competition.toml",)}
    there = settings.model_copy(update={**usual, **changes})
    async with Ledger.open(there.ledger) as ledger:
        problems = Problems.load(there.problems)
        problem = problem_for(Competitions.load(there.competitions, problems).get("spring"), problems.get("sum"))
        draft = fakes.new_submission(user=USER if there.asks_keys else "", competition_id="spring", device_kind="emulated")
        digest = SubmissionFiles(there.submission_files_path, 1 << 30).keep(file_bytes)
        file = wire.ArtifactFile(name="trace (1).json", tool="t", digest=digest, size_bytes=len(file_bytes))
        submission = await ledger.submit(replace(draft, mode=wire.Mode.RANKED), problem)
        lease = await ledger.lease("w", ttl_s=60, device_kinds=("emulated",))
        facts = [fact async for fact in fakes.FakeGrade()(lease)]
        await ledger.append(lease, facts)
        await ledger.settle(lease, fold(facts, lease.ranking), [file])
        _, key = await ledger.keys.create(USER, frozenset(Scope))
        async with serving(there, fakes.wiring(grade, capacity=capacity)) as running:
            yield Served(running.address, running.web_address, ledger, key, f"submissions/{submission.submission_id}")


async def requests_of(here, rejudges=("rejudges/none", "rejudges/none")):
    """A request of every method that has the same answer when it is sent again; CancelSubmission is refused. rejudges: to apply, and to
    discard."""
    api, problem, spring = grader_service_pb2, "problems/sum", "competitions/spring"
    submission = new_submission("sum", [fakes.SourceFile(path="kernel.cu", content=fakes.source("accept"))], tags=["a", "b"])
    submit = api.SubmitRequest(submission=submission, request_id=str(uuid.uuid4()))
    requests = [
        submit,
        api.BatchSubmitRequest(requests=[submit, api.SubmitRequest(submission=new_submission("none", submission.sources))]),
        api.GetSubmissionRequest(name=here.name, view="REPORT_VIEW_FULL"),
        api.ListSubmissionsRequest(page_size=1, states=["SUBMISSION_STATE_SUCCEEDED", "SUBMISSION_STATE_FAILED"], problem=problem),
        api.CancelSubmissionRequest(name=here.name),
        api.WatchSubmissionRequest(name=here.name, after_sequence=1, until_findings=True),
        api.WatchSubmissionsRequest(names=[here.name], until_idle=True),
        api.ListArtifactsRequest(parent=here.name),
        api.DownloadArtifactRequest(name=f"{here.name}/artifacts/trace (1).json"),
        api.GetProblemRequest(name=problem),
        api.ListProblemsRequest(page_size=1),
        api.GetCallerRequest(with_quotas=True),
        api.GetCompetitionRequest(name=spring),
        api.ListCompetitionsRequest(),
        api.GetLeaderboardRequest(competition=spring, problem=problem),
        api.CreateRejudgeRequest(rejudge={"cause": "c", "submissions": [here.name]}, request_id=str(uuid.uuid4())),
        api.GetRejudgeRequest(name=rejudges[0]),
        api.ListRejudgesRequest(),
        api.ApplyRejudgeRequest(name=rejudges[0]),
        api.DiscardRejudgeRequest(name=rejudges[1]),
        api.WithdrawSubmissionRequest(name=here.name, reason="r"),
        api.RestoreSubmissionRequest(name=here.name),
        api.BanUserRequest(competition=spring, user="bob", reason="r"),
        api.LiftBanRequest(competition=spring, user="carol"),
        api.ListBansRequest(competition=spring),
        api.ListCompetitionActionsRequest(competition=spring),
        api.ReloadCompetitionsRequest(),
    ]
    by_type = {request.DESCRIPTOR.full_name: request for request in requests}
    return {name: by_type[method.input_type.full_name] for name, method in METHODS.items()}
