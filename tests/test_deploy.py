"""Dockerfile, compose.yaml and the Kubernetes example: what is in them exists, is not root, and has no secret.

Docker is not needed: the files are parsed, and each command in them is parsed by the command line itself.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from palimpsest.cli.main import cli
from palimpsest.core.setting_table import BY_VARIABLE
from palimpsest.serve.settings import ServeSettings, TokenSettings
from palimpsest.store.home import Home

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = ("service", "build", "dev")
KUBERNETES = list(yaml.safe_load_all((ROOT / "docs/kubernetes/palimpsest.yaml").read_text()))
DOCKERFILE = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/guides").glob("*.md"))]


def parse(args: list[str]) -> dict[str, Any]:
    """Parses a command as the command line does, without running it; returns the values of its options."""
    command: click.Command = cli
    context = command.make_context("palimpsest", list(args))
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context.params


def instructions(name: str) -> list[str]:
    return [line.split(" ", 1)[1].strip() for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def pods() -> Iterator[dict[str, Any]]:
    for part in KUBERNETES:
        if part["kind"] == "Deployment":
            yield part["spec"]["template"]["spec"]
        if part["kind"] == "CronJob":
            yield part["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_the_image_is_not_root_and_serves_by_an_exec_form() -> None:
    assert instructions("USER") == ["10001:10001"] and "--uid 10001" in DOCKERFILE
    assert instructions("FROM") == ["python:3.11-slim AS build", "python:3.11-slim"]
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["palimpsest"]
    assert parse(json.loads(instructions("CMD")[0]))["port"] == int(instructions("EXPOSE")[0])
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nENTRYPOINT ")
    check = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
    assert check[0] == "python" and f":{instructions('EXPOSE')[0]}/health" in check[2]
    compile(check[2], "healthcheck", "exec")


def test_all_that_the_image_is_made_of_exists_and_nothing_else_is_sent() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines and "data/home" in lines
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    assert not {".git", ".env", ".venv", "tests", ".ci"} & set(kept)
    installed = {"pipelines", "eval", "data", "notebooks", "pyproject.toml", "constraints.txt", "README.md"}
    assert installed <= set(kept)


def test_everything_that_the_image_writes_is_in_its_volume() -> None:
    (volume,) = json.loads(instructions("VOLUME")[0])
    environment = dict(pair.split("=", 1) for pair in instructions("ENV")[-1].split())
    for name in ("HOME", "PALIMPSEST_HOME"):
        assert environment[name].startswith(f"{volume}/")
    assert instructions("WORKDIR")[-1] == volume
    for service in OURS:
        assert f"palimpsest:{volume}" in COMPOSE["services"][service]["volumes"]
    for pod in pods():
        (container,) = pod["containers"]
        mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        assert mounts[volume] == "home" and mounts["/tmp"] == "tmp"
        assert set(mounts.values()) == {v["name"] for v in pod["volumes"]}


def test_no_port_is_open_to_others_and_no_service_has_more_than_it_needs() -> None:
    for name, service in COMPOSE["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    for name in OURS:
        service = COMPOSE["services"][name]
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_every_command_of_the_containers_is_one_of_the_command_line() -> None:
    for name in OURS:
        values = parse(COMPOSE["services"][name]["command"])
        for port in COMPOSE["services"][name].get("ports", ()):
            assert port == f"127.0.0.1:{values['port']}:{values['port']}" and values["host"] == "0.0.0.0"
    for pod in pods():
        (container,) = pod["containers"]
        values = parse(container["args"])
        for port in container.get("ports", ()):
            assert port["containerPort"] == values["port"]


def test_variables_are_settings_and_no_file_has_a_secret() -> None:
    for name in OURS:
        for variable, value in COMPOSE["services"][name]["environment"].items():
            assert variable in BY_VARIABLE and value.startswith(f"${{{variable}:-"), variable
            if BY_VARIABLE[variable].is_secret:
                assert value == f"${{{variable}:-}}"
    text = (ROOT / "docs/kubernetes/palimpsest.yaml").read_text()
    assert not [p for p in KUBERNETES if p["kind"] == "Secret"] and "stringData" not in text
    for pod in pods():
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "palimpsest"}}]
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_pods_are_restricted() -> None:
    found = list(pods())
    assert len(found) == 2
    for pod in found:
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"} and pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]


def test_probes_ask_endpoints_that_the_service_has(tmp_path: Path) -> None:
    from palimpsest.serve.app import create_app

    paths = set(create_app(Home(tmp_path), ServeSettings(TokenSettings(secret="k" * 32))).openapi()["paths"])
    (container,) = next(pods())["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {p["path"] for p in probes.values()} <= paths and {p["port"] for p in probes.values()} == {"http"}
    assert probes["livenessProbe"]["path"] == "/health" and probes["readinessProbe"]["path"] == "/ready"


def test_names_that_belong_together_are_the_same() -> None:
    by_kind = {(p["kind"], p["metadata"]["name"]): p for p in KUBERNETES}
    claims = {name for kind, name in by_kind if kind == "PersistentVolumeClaim"}
    used = {v["persistentVolumeClaim"]["claimName"] for pod in pods() for v in pod["volumes"] if "emptyDir" not in v}
    assert used == claims
    labels = by_kind["Deployment", "palimpsest"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Service", "palimpsest"]["spec"]["selector"] == labels
    assert "emptyDir" in str(KUBERNETES) and by_kind["CronJob", "palimpsest-build"]
    for name, service in COMPOSE["services"].items():
        assert set(service.get("depends_on", {})) <= set(COMPOSE["services"]), name
        named = {v.split(":")[0] for v in service["volumes"] if not v.startswith(("$", ".", "/"))}
        assert named <= set(COMPOSE["volumes"]), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_of_the_command_line(page: Path) -> None:
    lines = re.findall(r"^    (?:docker compose exec service )?(palimpsest .*)$", page.read_text(), re.M)
    for line in lines:
        for command in line.split(" && "):
            # Left out: what names a bucket (it would be looked for) and lines of a synopsis with options in brackets.
            if "s3://" not in command and "[-" not in command and command.startswith("palimpsest "):
                parse(shlex.split(command, comments=True)[1:])


def test_ci_builds_the_image_where_docker_runs() -> None:
    assert "make image" in (ROOT / ".ci/run").read_text()
    recipe = (ROOT / "Makefile").read_text().partition("\nimage:")[2].partition("\n\n")[0]
    assert "docker build" in recipe and "docker compose config" in recipe
