"""The example of Dagster on Kubernetes: dagster-k8s makes jobs of it that have the home, the Secret and the limits.

No cluster is needed: the job that would be sent is looked at as JSON.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository
from dagster._grpc.types import ExecuteRunArgs

from palimpsest.orchestration.dev_server import _DAGSTER_YAML, DEFINITIONS
from palimpsest.orchestration.resources import EXECUTOR, executor_from_environment
from palimpsest.orchestration.run import build
from palimpsest.store.home import Home
from tests.orchestration.jobs import instance_of
from tests.orchestration.postgres_server import postgres
from tests.small_corpus import write_chats
from tests.test_deploy import instructions, parse

FOLDER = Path(__file__).resolve().parents[2] / "docs/kubernetes"
DEPLOYED = {part["kind"]: part for part in yaml.safe_load_all((FOLDER / "dagster-deployment.yaml").read_text())}
POD = DEPLOYED["Deployment"]["spec"]["template"]["spec"]
(SERVICE_POD,) = (
    part["spec"]["template"]["spec"]
    for part in yaml.safe_load_all((FOLDER / "palimpsest.yaml").read_text())
    if part["kind"] == "Deployment"
)
VOLUME = "/var/lib/palimpsest"


@pytest.fixture(scope="module")
def runs_url() -> Iterator[str]:
    with postgres() as socket:
        yield f"postgresql+psycopg2://postgres@/postgres?host={socket}"


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_url: str) -> Iterator[dg.DagsterInstance]:
    """The instance of the example, as a pod of the cluster loads it."""
    import kubernetes
    from kubernetes.config import incluster_config

    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("token")
    certificate.write_text("certificate")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
    for name, value in {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "9",
        "PALIMPSEST_RUNS_URL": runs_url,
        EXECUTOR: "k8s",
    }.items():
        monkeypatch.setenv(name, value)
    before = kubernetes.client.Configuration.get_default_copy()
    home = Home(tmp_path / "home")
    home.create()
    (home.dagster / "dagster.yaml").write_text((FOLDER / "dagster.yaml").read_text())
    with instance_of(home) as loaded:
        yield loaded
    kubernetes.client.Configuration.set_default(before)


def job_of(instance: dg.DagsterInstance) -> dict[str, Any]:
    """Returns the job that the run launcher sends for a run, as JSON."""
    import kubernetes
    from dagster_k8s.job import construct_dagster_k8s_job
    from dagster_k8s.launcher import K8sRunLauncher

    repository = ReconstructableRepository.for_module(DEFINITIONS, "defs")
    origin = ReconstructableJob(repository, "serve_graph").get_python_origin()
    run = dg.DagsterRun(job_name="serve_graph", job_code_origin=origin)
    launcher = instance.run_launcher
    assert isinstance(launcher, K8sRunLauncher)
    context = launcher.get_container_context_for_run(run)
    job = construct_dagster_k8s_job(
        context.get_k8s_job_config(None, launcher),
        ExecuteRunArgs(origin, run.run_id, instance.get_ref()).get_command_args(),
        f"dagster-run-{run.run_id}",
        user_defined_k8s_config=context.run_k8s_config,
        env_vars=[],
    )
    return kubernetes.client.ApiClient().sanitize_for_serialization(job)


def test_the_job_of_a_run_has_the_volumes_the_secret_and_the_limits_and_is_as_restricted_as_the_service(instance):
    pod = job_of(instance)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {m["name"]: (m["mountPath"], m.get("readOnly", False)) for m in container["volumeMounts"]}
    assert mounts == {"home": (VOLUME, False), "corpora": ("/corpora", True), "tmp": ("/tmp", False)}
    assert {v["name"]: v for v in pod["volumes"]} == {v["name"]: v for v in POD["volumes"] if v["name"] in mounts}
    assert container["envFrom"] == [{"secretRef": {"name": "palimpsest"}}]
    assert container["resources"]["limits"]["memory"] == "12Gi" and container["resources"]["requests"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment[EXECUTOR] == "k8s" and environment["DAGSTER_HOME"] == f"{VOLUME}/home/dagster"
    assert "password" not in str(pod).lower() and "PALIMPSEST_RUNS_URL" not in environment
    (container,), (service,) = pod["containers"], SERVICE_POD["containers"]
    assert pod["securityContext"] == SERVICE_POD["securityContext"] == POD["securityContext"]
    assert container["securityContext"] == service["securityContext"] == POD["containers"][0]["securityContext"]
    assert container["image"] == service["image"] and pod["serviceAccountName"] == "palimpsest-dagster"
    assert container["command"] == ["env"], "the image's own entry point is palimpsest"
    assert "execute_run" in shlex.join(container["args"]) and "postgres@" not in shlex.join(container["args"])


def test_the_example_has_its_executor_retries_and_pools_and_fits_the_configuration_and_the_image(instance):
    assert executor_from_environment().name == "k8s"
    assert instance.run_monitoring_enabled
    assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 1
    written = yaml.safe_load(_DAGSTER_YAML)
    example = yaml.safe_load((FOLDER / "dagster.yaml").read_text())
    assert {name: example[name] for name in ("concurrency", "run_retries")} == {
        name: written[name] for name in ("concurrency", "run_retries")
    }
    assert instance.run_retries_enabled and instance.global_op_concurrency_default_limit == 1
    launcher = instance.run_launcher
    (container,), (first,) = POD["containers"], POD["initContainers"]
    names = {part["metadata"]["name"] for part in DEPLOYED.values()}
    assert names == {launcher.service_account_name, launcher.instance_config_map}
    assert POD["volumes"][2]["configMap"]["name"] == launcher.instance_config_map
    assert first["command"][-1] == f"{launcher.dagster_home}/dagster.yaml"
    assert f"PALIMPSEST_HOME={Path(launcher.dagster_home).parent}" in instructions("ENV")[-1].split()
    values = parse(container["args"])
    assert (values["host"], values["port"]) == ("127.0.0.1", 3000), "the UI has no login"
    assert container["envFrom"] == [{"secretRef": {"name": "palimpsest"}}]
    mounted = {m["name"] for c in (container, first) for m in c["volumeMounts"]}
    assert mounted == {v["name"] for v in POD["volumes"]}


def test_a_build_from_the_command_line_needs_no_access_to_the_cluster(tmp_path, monkeypatch, runs_url):
    """The pod of the first build has no token: its runs are written, and nothing is launched."""
    monkeypatch.setenv("PALIMPSEST_RUNS_URL", runs_url)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    home = Home(tmp_path / "home")
    home.create()
    (home.dagster / "dagster.yaml").write_text((FOLDER / "dagster.yaml").read_text())
    assert build(home, [write_chats(tmp_path / "corpus")]).published
    with instance_of(home) as instance:
        assert {run.job_name for run in instance.get_runs()} == {"rebuild"}
