"""The files of deploy/ray: Ray takes them, and what they promise each other holds."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from grader_extensions.fleet import ray_placement as placement

DEPLOY = Path(__file__).parents[3] / "deploy" / "ray"
CLUSTER, KUBERAY = DEPLOY / "cluster.yaml", DEPLOY / "kuberay.yaml"

# -- ray up -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> dict[str, Any]:
    return yaml.safe_load(CLUSTER.read_text())


def test_the_cluster_fits_rays_schema(cluster) -> None:
    """And what Ray makes of it before it starts anything; a field that it does not know is the control."""
    ray = pytest.importorskip("ray")
    validate, invalid = import_module("jsonschema").validate, import_module("jsonschema").ValidationError
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    validate(cluster, schema)
    with pytest.raises(invalid):
        validate({**cluster, "worker_nodes": 3}, schema)
    util = import_module("ray.autoscaler._private.util")
    prepared = util.prepare_config(cluster)
    util.validate_config(prepared)
    assert prepared["max_workers"] == len(cluster["provider"]["worker_ips"])


def starts(cluster: dict[str, Any]) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """The environment and the options of `ray start`, as Ray's own command line reads them."""
    scripts, click = import_module("ray.scripts.scripts"), import_module("click")
    commands = {}
    for who in ("head", "worker"):
        export, command = cluster[f"{who}_start_ray_commands"][-1].split("; ")
        environment = dict(assignment.split("=", 1) for assignment in shlex.split(export)[1:])
        words = shlex.split(command)
        assert words[0] == "/opt/grader/.venv/bin/ray"
        commands[who] = (environment, scripts.start.make_context("start", words[2:]).params)
    assert click is not None
    return commands


def test_nodes_of_the_cluster_are_closed_and_labelled(cluster) -> None:
    """Token mode by a file, no dashboard, no memory monitor, ports that a firewall can name, and no lane on the head."""
    pytest.importorskip("ray")
    commands = starts(cluster)
    for environment, options in commands.values():
        assert environment["RAY_AUTH_MODE"] == "token" and environment["RAY_AUTH_TOKEN_PATH"].startswith("/")
        assert "RAY_AUTH_TOKEN" not in environment and environment["RAY_memory_monitor_refresh_ms"] == "0"
        ports = ("node_manager_port", "object_manager_port", "runtime_env_agent_port", "dashboard_agent_listen_port", "metrics_export_port")
        assert len({options[port] for port in ports}) == len(ports) and all(6379 < options[port] < 6400 for port in ports)
        assert (options["min_worker_port"], options["max_worker_port"]) == (10002, 10999)
    head, node = (options for _, options in commands.values())
    assert head["head"] and (head["num_cpus"], head["num_gpus"], head["include_dashboard"]) == (0, 0, False)
    assert head["ray_client_server_port"] == 6385  # Ray opens it where grpcio is installed, and can't be asked not to
    assert node["labels"].startswith(f"{placement.TYPE_LABEL}=") and node["address"].endswith(str(head["port"]))
    assert any("-c constraints.txt '.[server,judge,ray]' ./grader_extensions" in command for command in cluster["setup_commands"])


# -- Kubernetes ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    return {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(KUBERAY.read_text())}


def variables(group: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in containers(group)[0]["env"]}


def test_the_head_pod_survives_a_restart(objects) -> None:
    """Its state is in a volume of its own; the pods of workers and the job wait for it."""
    spec = objects["RayCluster", "grader"]["spec"]
    environment = variables(head := spec["headGroupSpec"])
    assert environment["RAY_gcs_storage"] == "rocksdb"
    (mount,) = containers(head)[0]["volumeMounts"]
    (volume,) = head["template"]["spec"]["volumes"]
    assert environment["RAY_gcs_storage_path"].startswith(f"{mount['mountPath']}/") and mount["name"] == volume["name"]
    assert objects["PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]]["spec"]["accessModes"] == ["ReadWriteOnce"]
    for group in (*spec["workerGroupSpecs"], objects["Job", "grader-place"]["spec"]):
        assert int(variables(group)["RAY_gcs_rpc_server_reconnect_timeout_s"]) > 60


def containers(group: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = group["template"]["spec"]["containers"]
    return entries


def test_only_pods_of_the_cluster_reach_rays_ports(objects) -> None:
    """And the job, which is a node of Ray without a core."""
    assert {kind for kind, _ in objects} == {
        "RayCluster",
        "NetworkPolicy",
        "Job",
        "PersistentVolumeClaim",
    }  # no service of ours, and no secret in the file
    spec = objects["NetworkPolicy", "grader-ray"]["spec"]
    cluster_labels, job = {"ray.io/cluster": "grader"}, objects["Job", "grader-place"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"] == cluster_labels and spec["policyTypes"] == ["Ingress"]
    (rule,) = spec["ingress"]
    assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]] == [cluster_labels, job]
    assert "--num-cpus=0 --num-gpus=0" in containers(objects["Job", "grader-place"]["spec"])[0]["args"][0]
