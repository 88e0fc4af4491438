"""`palimpsest config`: what is shown, changed and refused, and that every other command obeys the files."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from palimpsest.core.setting_layers import user_file
from palimpsest.core.setting_table import BY_VARIABLE
from tests.command import CLI, last_json, process, run, terminal
from tests.small_corpus import write_notes


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with no settings at all."""
    for variable in BY_VARIABLE:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("PALIMPSEST_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def source_of(done, key: str) -> tuple[object, str]:
    found = next(s for s in last_json(done)["settings"] if s["key"] == key)
    return found["value"], found["source"]


def editor(tmp_path: Path, code: str) -> str:
    """Returns an EDITOR that changes the file in its last argument by Python code on `text`."""
    script = tmp_path / "my editor.py"
    script.write_text(
        f"import sys, pathlib\np = pathlib.Path(sys.argv[-1])\ntext = p.read_text()\n{code}\np.write_text(text)\n"
    )
    return f"{sys.executable} '{script}'"


def test_what_is_set_is_shown_with_its_layer_and_obeyed(work):
    assert run("config", "set", "home", "kept", "--project", cwd=work).returncode == 0
    assert run("config", "set", "service.port", "9001", cwd=work).returncode == 0
    shown = run("config", "show", "--json", cwd=work, PALIMPSEST_USAGE_DAYS="7")
    assert source_of(shown, "home") == (str(work / "kept"), "project")
    assert source_of(shown, "service.port") == ("9001", "user")
    assert source_of(shown, "usage_days") == ("7", "environment")
    assert source_of(shown, "log_days") == (None, "default")
    assert f"home {work / 'kept'}" in run("query", "x", cwd=work).stderr
    other = run("query", "x", cwd=work, PALIMPSEST_HOME=str(work / "other"))
    assert f"home {work / 'other'}" in other.stderr


def test_a_build_obeys_a_file_as_it_obeys_the_variable(work, tmp_path):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "The bridge is 40 metres long.\n"})
    build = ("build", "--corpus", corpus, "--home", work / "h", "--dry-run")
    by_variable = run(*build, cwd=work, PALIMPSEST_EMBEDDER="openai:small")
    assert run("config", "set", "embedder.name", "openai:small", cwd=work).returncode == 0
    by_file = run(*build, cwd=work)
    assert by_variable.returncode == by_file.returncode == 2
    assert by_variable.stderr == by_file.stderr and "PALIMPSEST_EMBEDDER_URL" in by_file.stderr
    assert run(*build, cwd=work, PALIMPSEST_EMBEDDER="minilm").returncode == 0


def test_a_process_obeys_the_files_too(work):
    (work / "palimpsest.toml").write_text('backend = "neo4j"\n')
    done = process("query", "x", "--home", work / "h", cwd=work)
    assert done.returncode == 2 and "Neo4j" in done.stderr
    (work / "palimpsest.toml").write_text("usage_days = -1\n")
    done = process("query", "x", cwd=work)
    assert done.returncode == 2 and "usage_days" in done.stderr and done.stderr.count("\n") == 1


def test_a_broken_file_stops_every_command_but_config_and_doctor(work):
    (work / "palimpsest.toml").write_text("[lm\n")
    for args in (("query", "x"), ("collection", "list"), ("config", "show")):
        done = run(*args, cwd=work)
        assert done.returncode == 2 and "palimpsest.toml" in done.stderr and "line 1" in done.stderr
    assert run("config", "path", cwd=work).returncode == 0
    assert "FAIL settings" in run("doctor", "--home", work / "h", cwd=work).stdout


def test_doctor_names_the_layers(work):
    (work / "palimpsest.toml").write_text("usage_days = 1\nlog_days = 1\n")
    found = run("doctor", "--home", work / "h", cwd=work, PALIMPSEST_RUN_DAYS="3").stdout
    assert f"ok   settings: 1 from the environment, 2 from the project ({work / 'palimpsest.toml'}), " in found


def test_doctor_names_each_extra_and_how_a_missing_one_is_installed(work, monkeypatch):
    def found(name: str) -> str:
        if name == "uvicorn":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr("palimpsest.cli.doctor.version", found)
    extras = next(
        line for line in run("doctor", "--home", work / "h", cwd=work).stdout.splitlines() if "extras" in line
    )
    assert "serve: not installed, pip install 'palimpsest-memory[serve]'" in extras and "telemetry: open" in extras


def test_path_names_both_files(work):
    done = run("config", "path", "--json", cwd=work)
    assert last_json(done)["project"] == str(work / "palimpsest.toml")
    assert last_json(done)["user"] == str(user_file()) and not last_json(done)["exists"]["user"]


def test_a_secret_is_read_from_stdin_and_never_shown(work):
    given = run("config", "set", "lm.key", "hunter2", cwd=work)
    assert given.returncode == 2 and "is a secret" in given.stderr and "hunter2" not in given.stderr
    command = [CLI, "config", "set", "lm.key"]
    done = subprocess.run(command, input="hunter2\n", capture_output=True, text=True, cwd=work, timeout=60, check=True)
    assert "hunter2" not in done.stdout + done.stderr
    assert user_file().stat().st_mode & 0o777 == 0o600 and "hunter2" in user_file().read_text()
    shown = run("config", "show", cwd=work).stdout + run("config", "show", "--json", cwd=work).stdout
    line = next(line for line in shown.splitlines() if line.startswith("lm.key "))
    assert "hunter2" not in shown and line.split() == ["lm.key", "(set,", "not", "shown)", "user"]
    project = subprocess.run([*command, "--project"], input="x\n", capture_output=True, text=True, cwd=work, timeout=60)
    assert project.returncode == 2 and not (work / "palimpsest.toml").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("set", "lm.sever", "x"), "use lm.server"),
        (("set", "usage_days", "many"), "must be a whole number"),
        (("set", "backend", "sqlite"), "must be one of"),
        (("unset", "nope"), "no setting 'nope'"),
        (("get", "nope"), "no setting 'nope'"),
        (("set", "schedule.nightly", "0 3 * *"), "schedule.nightly: must be a cron expression of five fields"),
        (("set", "schedule.timezone", "Mars/Olympus"), "schedule.timezone: must be the IANA name of a time zone"),
        (("set", "neo4j.heap", "much"), "neo4j.heap: must be a number with k, m or g, such as '2g'"),
        (("set", "neo4j.pagecache", "0g"), "neo4j.pagecache: must be a number with k, m or g"),
        (("set", "lm.price", "cheap"), "lm.price: must be two numbers in quotes, such as '0.15,0.6'"),
        (("trust",), "is not there"),
    ],
)
def test_mistakes_are_one_line(work, args, message):
    done = run("config", *args, cwd=work)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not user_file().exists()


def test_unset_lets_the_layer_below_count_again(work):
    run("config", "set", "PALIMPSEST_USAGE_DAYS", "3", cwd=work)
    run("config", "set", "usage_days", "5", "--project", cwd=work)
    assert source_of(run("config", "show", "--json", cwd=work), "usage_days") == ("5", "project")
    run("config", "unset", "usage_days", "--project", cwd=work)
    assert source_of(run("config", "show", "--json", cwd=work), "usage_days") == ("3", "user")


def test_an_editor_changes_the_file_and_a_broken_text_is_kept_beside_it(work, tmp_path):
    good = run("config", "edit", cwd=work, EDITOR=editor(tmp_path, "text += 'usage_days = 4\\n'"), VISUAL="")
    assert good.returncode == 0 and "usage_days = 4" in user_file().read_text()
    broken = run("config", "edit", cwd=work, EDITOR=editor(tmp_path, "text += '[lm\\n'"), VISUAL="")
    (draft,) = user_file().parent.glob(".config.toml.*.draft.toml")
    assert broken.returncode == 2 and "nothing was saved" in broken.stderr and str(draft) in broken.stderr
    assert "[lm" not in user_file().read_text() and "[lm" in draft.read_text()
    assert draft.stat().st_mode & 0o777 == 0o600
    same = run("config", "edit", "--json", cwd=work, EDITOR=editor(tmp_path, ""), VISUAL="")
    assert last_json(same)["changed"] is False
    project = run(
        "config", "edit", "--project", cwd=work, EDITOR=editor(tmp_path, "text += 'log_days = 4\\n'"), VISUAL=""
    )
    assert project.returncode == 0 and "log_days = 4" in (work / "palimpsest.toml").read_text()


def test_a_value_that_another_command_sets_during_an_edit_is_kept(work, tmp_path):
    code = f"import subprocess; subprocess.run([{str(CLI)!r}, 'config', 'set', 'log_days', '4'], check=True)"
    done = run("config", "edit", cwd=work, EDITOR=editor(tmp_path, f"{code}; text += 'usage_days = 5\\n'"), VISUAL="")
    (draft,) = user_file().parent.glob(".config.toml.*.draft.toml")
    assert done.returncode == 2 and "changed by another command" in done.stderr and str(draft) in done.stderr
    assert done.stderr.count("\n") == 1 and "usage_days = 5" in draft.read_text()
    assert "log_days = 4" in user_file().read_text() and "usage_days" not in user_file().read_text()


def test_one_value_is_printed_and_all_are_shown_in_columns_with_their_meanings(work):
    assert run("config", "get", "usage_days", cwd=work, PALIMPSEST_USAGE_DAYS="7").stdout == "7\n"
    assert run("config", "get", "PALIMPSEST_LM", cwd=work).stdout == "not set\n"
    shown = run("config", "show", cwd=work).stdout.splitlines()
    assert len({line.rindex("default") for line in shown if line.startswith(("home", "log_days", "service.rpm"))}) == 1
    assert "    days for which files of the event log are kept\n" in run("config", "show", "--explain", cwd=work).stdout


def test_a_removed_setting_names_what_counts_then(work):
    run("config", "set", "log_days", "4", cwd=work)
    assert "log_days is removed; it is now 30 (default)" in run("config", "unset", "log_days", cwd=work).stdout
    assert "does not set log_days; nothing changed" in run("config", "unset", "log_days", cwd=work).stdout


def test_passwords_in_addresses_are_not_printed(work):
    address = "small@http://me:hunter2@127.0.0.1:9/v1"
    shown = run("config", "set", "lm.server", address, "--project", cwd=work).stdout
    shown += run("config", "trust", cwd=work).stdout + run("config", "trust", "--json", cwd=work).stdout
    assert "hunter2" not in shown and "http://***@127.0.0.1:9/v1" in shown


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("false", 3, "ended with code 1"),
        ("no-such-editor", 3, "set EDITOR"),
        ("'unclosed", 2, "EDITOR"),
        ("touch $(echo made)", 0, "nothing changed"),
    ],
)
def test_an_editor_runs_without_a_shell_and_its_failure_saves_nothing(work, command, code, message):
    done = run("config", "edit", cwd=work, EDITOR=command, VISUAL="")
    assert done.returncode == code and message in done.stderr + done.stdout
    assert not user_file().exists() and not (work / "made").exists()


def test_the_wizard_asks_nothing_without_a_terminal_and_keeps_what_is_set(work):
    run("config", "set", "service.port", "9001", cwd=work)
    done = run("config", "init", "--json", "--yes", cwd=work)
    assert done.returncode == 0 and set(last_json(done)["keys"]) == {"home", "backend", "service.jwt_secret"}
    text = user_file().read_text()
    assert "port = 9001" in text and user_file().stat().st_mode & 0o777 == 0o600
    again = run("config", "init", "--json", "--yes", cwd=work)
    assert last_json(again)["keys"] == [] and user_file().read_text() == text
    assert run("serve", "token", "--user", "ann", cwd=work).returncode == 0


def test_the_wizard_asks_and_asks_again_after_a_wrong_answer(work):
    answers = f"{work / 'mine'}\nsqlite\nduckdb\nsmall@http://127.0.0.1:9/v1\n9002\n"
    done = terminal(["config", "init"], answers, work)
    assert "must be one of" in done
    shown = run("config", "show", "--json", cwd=work)
    assert source_of(shown, "home") == (str(work / "mine"), "user")
    assert source_of(shown, "lm.server") == ("small@http://127.0.0.1:9/v1", "user")
    assert source_of(shown, "service.port") == ("9002", "user")


def test_a_project_wizard_writes_no_secret_and_what_it_names_has_to_be_trusted(work):
    answers = "data/home\nduckdb\nsmall@http://127.0.0.1:9/v1\n8765\n"
    terminal(["config", "init", "--project"], answers, work)
    assert "secret" not in (work / "palimpsest.toml").read_text()
    refused = run("query", "x", cwd=work)
    assert refused.returncode == 2 and "palimpsest config trust" in refused.stderr
    assert "lm.server = small@" in run("config", "trust", cwd=work).stdout
    assert "config trust" not in run("query", "x", cwd=work).stderr
