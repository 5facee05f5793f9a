"""Looks at a live container from outside: it is what the record says, and nothing more."""

import json
import os
from pathlib import Path

import docker
import pytest

from grader.isolation import Purpose
from grader.isolation.directories import slot_uid
from grader.isolation.launch import MASKED_PATHS, READONLY_PATHS
from grader.isolation.toolchain import host_toolchain, profile

pytestmark = pytest.mark.docker


@pytest.fixture
def engine(docker_cage):
    client = docker.APIClient(base_url="unix:///var/run/docker.sock", version="auto")
    yield client
    client.close()


def inspected(engine, cage):
    (container,) = engine.containers(filters={"label": f"grader.state={cage.settings.state_id}"})
    return engine.inspect_container(container["Id"])


def proc_lines(facts, name):
    return Path(f"/proc/{facts['State']['Pid']}", name).read_text().splitlines()


async def test_a_live_box_is_locked(docker_cage, engine):
    async with docker_cage.live("time.sleep(60)", purpose=Purpose.RUN) as box:
        facts = inspected(engine, docker_cage)
        host, config = facts["HostConfig"], facts["Config"]
        assert host["NetworkMode"] == "none"
        assert list(facts["NetworkSettings"]["Networks"]) == ["none"]
        assert host["ReadonlyRootfs"] is True
        assert (host["CapDrop"], host["CapAdd"] or []) == (["ALL"], [])
        assert host["Privileged"] is False
        assert host["PidMode"] == host["UTSMode"] == host["UsernsMode"] == ""
        assert (host["IpcMode"], host["CgroupnsMode"]) == ("private", "private")
        assert (host["Devices"] or [], host["DeviceRequests"] or [], host["VolumesFrom"] or []) == ([], [], [])
        assert {path for path in MASKED_PATHS if path.startswith("/proc/")} | {"/sys"} == set(host["MaskedPaths"])
        assert set(READONLY_PATHS) <= set(host["ReadonlyPaths"])
        assert host["LogConfig"]["Type"] == "none"
        uid = slot_uid(docker_cage.slot, Purpose.RUN)
        assert config["User"] == f"{uid}:{uid}"
        assert box.uid == uid >= 60000
        status = dict(line.split(":\t", 1) for line in proc_lines(facts, "status") if ":\t" in line)
        assert status["Uid"].split() == [str(uid)] * 4
        assert status["Groups"].split() in ([], [str(uid)])


async def test_a_live_box_has_our_filter(docker_cage, engine):
    async with docker_cage.live("time.sleep(60)"):
        facts = inspected(engine, docker_cage)
        options = facts["HostConfig"]["SecurityOpt"]
        assert "no-new-privileges:true" in options
        (text,) = [option.removeprefix("seccomp=") for option in options if option.startswith("seccomp=")]
        assert json.loads(text) == json.loads(profile("seccomp.json").read_text())
        status = proc_lines(facts, "status")
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status
        assert "CapEff:\t0000000000000000" in status


async def test_a_live_box_is_limited(docker_cage, engine):
    async with docker_cage.live("time.sleep(60)"):
        host = inspected(engine, docker_cage)["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 128 << 20
        assert host["PidsLimit"] == 24
        assert host["ShmSize"] == 16 << 20
        assert host["OomScoreAdj"] > 0
        assert not host["OomKillDisable"]
        assert host["Tmpfs"]["/tmp"] == f"mode=1777,nosuid,nodev,exec,size={8 << 20},nr_inodes=20000"
        limits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]}
        assert limits["core"] == limits["msgqueue"] == (0, 0)
        assert limits["nofile"] == (64, 64)
        assert limits["fsize"] == (16 << 20, 16 << 20)
        assert all(soft == hard for soft, hard in limits.values())


async def test_a_live_box_sees_nothing_beyond_the_list(docker_cage, engine):
    toolchain = host_toolchain(docker_cage.settings.runtime_dir / "etc")
    allowed = {(str(bind.source), bind.target) for bind in (*toolchain.binds, *toolchain.proc)}
    async with docker_cage.live("time.sleep(60)"):
        facts = inspected(engine, docker_cage)
        mounts = {(mount["Source"], mount["Destination"]): mount for mount in facts["Mounts"] if mount["Type"] != "tmpfs"}
        (link,) = [pair for pair in mounts if pair[1] == "/grader/link"]
        assert set(mounts) == allowed | {link}
        assert not [pair for pair, mount in mounts.items() if mount["RW"]]
        assert link[0].startswith(str(docker_cage.settings.runtime_dir))
        inside = [line.split() for line in proc_lines(facts, "mountinfo")]
        kernels_own = ("/", "/proc", "/dev", "/sys", "/tmp", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
        beyond = {words[4] for words in inside if words[4] not in kernels_own and not words[4].startswith(("/proc/", "/dev/", "/sys/"))} - {
            target for _, target in mounts
        }
        assert not [path for path in beyond if not any(path.startswith(target + "/") for _, target in mounts)], beyond
        assert not [words for words in inside if "docker.sock" in words[4] or "docker.sock" in words[3]]


async def test_a_live_box_gets_only_its_own_environment(docker_cage, engine, monkeypatch):
    monkeypatch.setenv("GRADER_TEST_SECRET", "hunter2")
    async with docker_cage.live("time.sleep(60)"):
        facts = inspected(engine, docker_cage)
    assert "hunter2" not in json.dumps(facts)
    assert os.environ["GRADER_TEST_SECRET"] == "hunter2"
    assert {entry.split("=")[0] for entry in facts["Config"]["Env"]} <= {
        "PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED",
        "CCACHE_DISABLE", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES", "GRADER_BOX_MODULES", "OMP_WAIT_POLICY",
    }  # fmt: skip


async def test_a_container_is_gone_when_its_box_is_left(docker_cage, engine):
    await docker_cage.run("pass")
    assert engine.containers(all=True, filters={"label": f"grader.state={docker_cage.settings.state_id}"}) == []
