"""The files of deploy/ are valid, and agree with each other and with the command line."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from soulslab.cli.application import app

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
PODS = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in KUBERNETES if "template" in each["spec"]}


SOULSLAB = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "soulslab"}


def commands():
    """Yield the soulslab commands of all containers."""
    yield COMPOSE["services"]["learner"]["healthcheck"]["test"][2:]
    for service in SOULSLAB.values():
        yield from script_commands(service["command"]) if "entrypoint" in service else [service["command"]]
    for container in (container for pod in PODS.values() for container in pod["containers"]):
        yield from script_commands(container["args"]) if "command" in container else [container["args"]]
        if "readinessProbe" in container:
            yield container["readinessProbe"]["exec"]["command"][1:]


def script_commands(words):
    """Return the commands of soulslab in a script for sh."""
    (script,) = words
    return [shlex.split(found) for found in re.findall(r"exec soulslab ([^;]+);", script)]


COMMANDS = list(commands())


def test_the_learner_resumes_a_run():
    for words in (COMPOSE["services"]["learner"]["command"], PODS["learner"]["containers"][0]["args"]):
        again, first = script_commands(words)
        assert again[:3] == ["fleet", "learn", "--resume"]
        assert again[3] == first[first.index("--run-dir") + 1]
        assert again[again.index("--listen") + 1] == first[first.index("--listen") + 1]
        assert f"{again[3]}/checkpoints/step_" in words[0]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_is_one_of_the_command_line(command):
    called, bound, _ = app.parse_args(command, exit_on_error=False, print_error=False)
    assert called.__module__ in ("soulslab.cli.fleet", "soulslab.cli.dashboard")
    assert bound is not None


def test_the_volumes_and_the_image_of_compose_exist():
    assert (DEPLOY / COMPOSE["services"]["learner"]["build"]["context"] / "deploy/Dockerfile").exists()
    for name, service in COMPOSE["services"].items():
        assert (service["image"] == "soulslab") == (name in SOULSLAB)
        for source in (volume.split(":")[0] for volume in service["volumes"]):
            assert source in (*COMPOSE["volumes"], "./tls") or (DEPLOY / source).is_file()
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys()


def test_prometheus_reads_the_learner_and_grafana_reads_prometheus():
    services = COMPOSE["services"]
    (port,) = {
        command[command.index("--prometheus") + 1] for command in script_commands(services["learner"]["command"])
    }
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert [each["static_configs"][0]["targets"] for each in scraped] == [[f"127.0.0.1:{port}"]]
    [source] = yaml.safe_load((DEPLOY / "grafana" / "datasource.yaml").read_text())["datasources"]
    assert source["url"].removeprefix("http://") in " ".join(services["prometheus"]["command"])
    # All of them listen on the loopback interface of the learner.
    assert {services[name]["network_mode"] for name in ("prometheus", "grafana")} == {"service:learner"}
    [provider] = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yaml").read_text())["providers"]
    mounted = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    dashboard = mounted["../docs/grafana.json"]
    assert dashboard.startswith(f"{provider['options']['path']}/")
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard
    assert json.loads((DEPLOY / "../docs/grafana.json").read_text())["uid"] == "soulslab"


def test_the_objects_of_kubernetes_refer_to_each_other():
    service = next(each for each in KUBERNETES if each["kind"] == "Service")
    for each in KUBERNETES:
        assert {"apiVersion", "kind", "metadata", "spec"} <= each.keys()
        if each["kind"] != "Service":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels
    learner = next(each for each in KUBERNETES if each["kind"] == "StatefulSet")
    assert learner["spec"]["serviceName"] == service["metadata"]["name"]
    assert learner["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]
    (port,) = service["spec"]["ports"]
    assert f"--listen {service['metadata']['name']}:{port['port']}" in str(PODS["learner"])
    claims = {each["metadata"]["name"] for each in learner["spec"]["volumeClaimTemplates"]}
    for name, pod in PODS.items():
        volumes = {each["name"] for each in pod.get("volumes", [])} | (claims if name == "learner" else set())
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_the_image_installs_what_the_repository_has():
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+) /source/", text, re.MULTILINE):
        assert all((DEPLOY.parent / name).exists() for name in line.split())
    (extras,) = re.findall(r"/source\[([a-z,]+)\]", text)
    known = re.findall(r"^([a-z]+) = \[", (DEPLOY.parent / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(extras.split(",")) <= set(known)
    assert "torch==" in (DEPLOY.parent / "constraints.txt").read_text()


def test_no_secret_is_in_a_file():
    for path in (each for each in DEPLOY.rglob("*") if each.is_file()):
        assert not re.search(r"password|token", path.read_text(), re.IGNORECASE), path
