"""The Kubernetes manifests are valid by Kubernetes' own schemas, and say what the server and its client expect."""

import re
import shlex
from pathlib import Path

import kubernetes_validate
import pytest
import tyro
import yaml

from env_servers.children import TOKEN_VARIABLE
from env_servers.server import ServerConfig

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
VERSION = kubernetes_validate.latest_version()


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@pytest.fixture(scope="module")
def manifests():
    return {document["kind"]: document for document in documents("env-servers.yaml")}


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.yaml")), ids=lambda path: path.name)
def test_every_manifest_is_valid_and_holds_no_unknown_field(path):
    found = documents(path.name)
    assert found
    for document in found:
        kubernetes_validate.validate(document, VERSION, strict=True)


def test_the_checker_refuses_what_is_wrong(manifests):
    wrong = {**manifests["Service"], "spec": {**manifests["Service"]["spec"], "clusterIPs": "none"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)
    unknown = {**manifests["Service"], "spec": {**manifests["Service"]["spec"], "clusterip": "None"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(unknown, VERSION, strict=True)


def test_the_parts_fit_together(manifests):
    deployment, service = manifests["Deployment"]["spec"], manifests["Service"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"]["matchLabels"], service["selector"]]
    selectors.append(manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert service["clusterIP"] == "None"
    assert container["ports"][0]["containerPort"] == service["ports"][0]["port"] == ServerConfig().port
    assert container["env"][0]["name"] == TOKEN_VARIABLE and "secretKeyRef" in container["env"][0]["valueFrom"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/livez"
    config = tyro.cli(ServerConfig, args=container["args"])  # the server knows all these options
    assert config.drain_s + 10 <= deployment["template"]["spec"]["terminationGracePeriodSeconds"]
    assert deployment["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_the_container_file_names_no_registry_and_starts_the_server():
    text = (DEPLOY / "Containerfile.env").read_text()
    lines = re.sub(r"\\\n", " ", text).splitlines()
    assert "ARG BASE_IMAGE" in lines and [line for line in lines if line.startswith("FROM ")] == ["FROM ${BASE_IMAGE}"]
    words = []
    for kind in ("ENTRYPOINT", "CMD"):
        (line,) = [line for line in lines if line.startswith(kind + " ")]
        words += shlex.split(line.removeprefix(kind).strip(" []").replace(",", " "))
    assert words[:3] == ["gui-rl", "env", "serve"]
    config = tyro.cli(ServerConfig, args=words[3:])
    assert (config.host, config.port) == ("0.0.0.0", ServerConfig().port)
    root = DEPLOY.parent
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied and all((root / name).exists() for name in copied)
