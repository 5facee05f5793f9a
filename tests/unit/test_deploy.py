"""The unit and the compose files: what they name is there, and what they promise each other holds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from grader.config import Settings, web_address
from grader.observability.metrics import Metrics
from grader.server.main import parser
from tests.requirements import absent

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "grader-server.service"
PROGRAM = "/opt/grader/.venv/bin/grader-server"
# Each gives a service a mount namespace of its own, see the unit.
OWN_MOUNTS = (
    "ProtectSystem",
    "ProtectHome",
    "ProtectKernel",
    "ProtectControlGroups",
    "ProtectProc",
    "ProcSubset",
    "Private",
    "DynamicUser",
)
OWN_MOUNTS += ("ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "BindPaths", "TemporaryFileSystem", "RootDirectory", "MountFlags")


def unit():
    """The unit's settings; of one that is there twice, a list."""
    unit_settings = {}
    for line in UNIT.read_text().replace("\\\n", " ").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            unit_settings.setdefault(name, []).append(value)
    return unit_settings


def settings_of(words):
    """The settings of a server that is started with these words."""
    return Settings(**{name: value for name, value in vars(parser().parse_args(words)).items() if value is not None})


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_unit_starts_the_server_with_settings_that_it_takes():
    """Every option is there, and the directories are those that systemd makes."""
    program, *words = shlex.split(unit()["ExecStart"][0])
    settings = settings_of(words)
    assert program == PROGRAM and "grader-server" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert settings.loopback and settings.state_dir == Path("/var/lib") / unit()["StateDirectory"][0]
    (temporary,) = [variable.removeprefix("TMPDIR=") for variable in unit()["Environment"]]
    assert Path(temporary) == Path("/var/cache") / unit()["CacheDirectory"][0] and unit()["CacheDirectoryMode"] == ["0711"]


def test_the_unit_is_patient_for_longer_than_a_drain():
    """SIGTERM goes to the server alone, and SIGKILL comes after what the drain may take."""
    settings = settings_of(shlex.split(unit()["ExecStart"][0])[1:])
    assert float(unit()["TimeoutStopSec"][0]) > settings.drain_s + 30 and unit()["KillMode"] == ["mixed"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path):
    """Every setting is one that it knows; a misspelled one is an error, which is the control."""
    text = UNIT.read_text().replace(PROGRAM, sys.executable)
    for name, unit_text in (("good", text), ("bad", text.replace("KillMode=mixed", "KilMode=mixed"))):
        path = tmp_path / f"{name}.service"
        path.write_text(unit_text)
        analysis = subprocess.run(["systemd-analyze", "verify", "--man=no", path], check=False, capture_output=True, text=True, timeout=300)
        assert ("KilMode" in analysis.stderr) is (name == "bad") and (analysis.returncode == 0 or name == "bad"), analysis.stderr


_TRIAL = """
import asyncio, sys, tempfile
from pathlib import Path
from grader.isolation.bubblewrap import BubblewrapIsolation
from grader.isolation.settings import BoxSettings
with tempfile.TemporaryDirectory(prefix="grader-unit-") as place:
    Path(place).chmod(0o711)
    found = asyncio.run(BubblewrapIsolation(BoxSettings(state_id="unit", runtime_dir=Path(place))).check())
print(found.detail)
sys.exit(not found.usable)
"""


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_boxes_start_with_no_more_than_the_unit_leaves(isolation_usable):
    """Its capabilities, no new privileges and its umask are enough; without CAP_SYS_ADMIN, the control, they are not."""
    capabilities = [name.removeprefix("CAP_").lower() for name in unit()["CapabilityBoundingSet"][0].split()]
    answers = []
    for names in (capabilities, [name for name in capabilities if name != "sys_admin"]):
        bounds = ",".join(["-all", *(f"+{name}" for name in names)])
        command = ["setpriv", "--bounding-set", bounds, "--inh-caps", "-all", "--no-new-privs", sys.executable, "-c", _TRIAL]
        answers.append(subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300, umask=0o077))
    assert [answer.returncode for answer in answers] == [0, 1], [answer.stdout + answer.stderr for answer in answers]


@pytest.fixture
def isolation_usable():
    if shutil.which("bwrap") is None:
        absent("bubblewrap", "bwrap is not installed")


def test_compose_starts_the_server_with_settings_that_it_takes(compose, tmp_path):
    """Beyond loopback with TLS, in boxes of Docker whose image is built beside it; the database is the service of that name."""
    server = compose["services"]["server"]
    settings = settings_of(server["command"])
    assert not settings.loopback and settings.asks_keys and settings.tls_certificate and settings.tls_key
    assert settings.sandbox == "docker" and settings.box_root == f"image:{compose['services']['box']['image']}"
    database = Settings(database=server["environment"]["GRADER_DATABASE"]).database
    user, host, name = re.fullmatch(r"postgresql://(\w+)@(\w+)/(\w+)", database).groups()
    postgres = compose["services"][host]["environment"]
    assert (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]) == (user, name)
    assert postgres["POSTGRES_PASSWORD"] == server["environment"]["PGPASSWORD"]


def test_what_boxes_are_handed_has_the_same_path_inside_and_outside(compose):
    """The engine binds the host's paths: state and temporary directory are mounted where they are."""
    server = compose["services"]["server"]
    mounted = dict(volume.split(":")[:2] for volume in server["volumes"])
    for path in (server["environment"]["GRADER_STATE_DIR"], server["environment"]["TMPDIR"], "/var/run/docker.sock"):
        assert mounted[path] == path


def test_only_the_api_is_published_beyond_this_host(compose):
    """Metrics and Prometheus ask nobody who they are."""
    ports = {name: service.get("ports", []) for name, service in compose["services"].items()}
    assert [port for name in ports for port in ports[name] if not port.startswith("127.0.0.1:")] == ["50551:50551"]


@pytest.fixture
def composed(tmp_path):
    """Run `compose config` on a text of the file; skips where no compose is installed."""
    program = None
    for command in (["docker", "compose"], ["docker-compose"]):
        if program is None and shutil.which(command[0]):
            query = subprocess.run([*command, "version", "--short"], check=False, capture_output=True, text=True, timeout=300)
            program = (command, query.stdout.strip()) if query.returncode == 0 and query.stdout.strip() else None
    if program is None:
        absent("compose", "neither the compose plug-in nor docker-compose is installed")
    command, version = program
    (tmp_path / "empty").touch()

    def run(text, **environment):
        if version.startswith("1."):  # Debian 12's is 1.29, which knows all of the file but this line
            text = re.sub(r"^name: .*\n", "", text, count=1, flags=re.MULTILINE)
        (tmp_path / "compose.yaml").write_text(text)
        place = ["-f", tmp_path / "compose.yaml", "--project-directory", DEPLOY, "--env-file", tmp_path / "empty"]
        variables = {name: value for name, value in os.environ.items() if name != "POSTGRES_PASSWORD"} | environment
        return subprocess.run(
            [*command, *place, "--profile", "build", "config"], check=False, capture_output=True, text=True, env=variables, timeout=60
        )

    return run


SERVICES = {"compose.yaml": {"box", "server", "postgres", "prometheus", "grafana"}, "compose.workers.yaml": {"box", "server", "one", "two"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_compose_itself_takes_the_file(composed, name):
    """A misspelled key is the control."""
    text = (DEPLOY / name).read_text()
    misspelled = composed(text.replace("stop_grace_period", "stop_grace_perod"), POSTGRES_PASSWORD="planted")
    assert misspelled.returncode != 0 and "stop_grace_perod" in misspelled.stderr
    process = composed(text, POSTGRES_PASSWORD="planted")
    assert process.returncode == 0, process.stderr
    assert set(yaml.safe_load(process.stdout)["services"]) == SERVICES[name]


@pytest.mark.slow
def test_compose_gives_the_password_to_who_needs_it(composed):
    """With a password, which both services get that need one; the control is none."""
    text = (DEPLOY / "compose.yaml").read_text()
    without = composed(text)
    assert without.returncode != 0 and "make deploy/.env as the first lines" in without.stderr
    process = composed(text, POSTGRES_PASSWORD="planted")
    assert process.returncode == 0, process.stderr
    services = yaml.safe_load(process.stdout)["services"]
    server, postgres = services["server"], services["postgres"]
    assert server["environment"]["PGPASSWORD"] == postgres["environment"]["POSTGRES_PASSWORD"] == "planted"
    assert server["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert settings_of(server["command"]).drain_s == 300


def test_prometheus_reads_the_web_port_and_alerts_name_our_metrics(compose):
    """An alert on a metric that is not there never fires."""
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    port = web_address(settings_of(compose["services"]["server"]["command"]).web)[1]
    (scraped,) = prometheus["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"server:{port}"]}]
    (rules,) = [yaml.safe_load((DEPLOY / name).read_text()) for name in prometheus["rule_files"]]
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    named = {name for text in expressions for name in re.findall(r"grader_\w+", text)}
    ours = {name for metric in Metrics().registry.collect() for name in (metric.name, f"{metric.name}_total", f"{metric.name}_bucket")}
    assert len(named) > 3 and named <= ours


def test_a_container_of_the_server_keeps_its_name(compose):
    """By which it knows the leases that its last container held."""
    assert compose["services"]["server"]["hostname"]
