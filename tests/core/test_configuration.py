"""Settings: environment over project file over user file, one table for all; and files that cannot be trusted."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palimpsest.core.edit_settings import write_settings
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.setting_layers import (
    apply_layers,
    project_file,
    read_layers,
    resolve,
    setting_json,
    setting_row,
    trust,
    user_file,
)
from palimpsest.core.setting_table import BY_KEY, BY_VARIABLE, SECTIONS, SETTINGS, Setting

ROOT = Path(__file__).resolve().parents[2]
OTHER_USER = 4_242


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a repository, and an empty user folder; returns the working folder."""
    for variable in BY_VARIABLE:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("PALIMPSEST_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def write_user(text: str, mode: int = 0o600) -> Path:
    path = user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def write_project(folder: Path, text: str) -> Path:
    path = folder / "palimpsest.toml"
    path.write_text(text)
    return path


def values(environment: dict[str, str]) -> dict[str, str]:
    apply_layers(environment=environment)
    return environment


def refusal() -> str:
    with pytest.raises(PalimpsestError) as error:
        apply_layers(environment={})
    return str(error.value)


def test_the_environment_wins_over_the_project_and_that_over_the_user(folders):
    write_user("usage_days = 1\nlog_days = 1\nrun_days = 1\n")
    write_project(folders, "usage_days = 2\nlog_days = 2\n")
    found = values({"PALIMPSEST_USAGE_DAYS": "3"})
    assert found == {"PALIMPSEST_USAGE_DAYS": "3", "PALIMPSEST_LOG_DAYS": "2", "PALIMPSEST_RUN_DAYS": "1"}
    sources = {r.setting.key: r.source for r in resolve(read_layers(), {"PALIMPSEST_USAGE_DAYS": "3"})}
    assert [sources[k] for k in ("usage_days", "log_days", "run_days", "log_mib")] == [
        "environment",
        "project",
        "user",
        "default",
    ]


def test_an_empty_variable_turns_off_what_a_file_sets(folders):
    write_user('[lm]\nserver = "m@http://127.0.0.1:1/v1"\n')
    assert values({"PALIMPSEST_LM": ""}) == {"PALIMPSEST_LM": ""}


def test_no_file_is_read_where_the_environment_says_so(folders, monkeypatch):
    write_user("nonsense")
    monkeypatch.setenv("PALIMPSEST_CONFIG", "off")
    assert values({}) == {}


def test_every_kind_of_value_becomes_what_the_variable_would_be(folders):
    write_user(
        'home = "kept"\ndata = "~/data"\nbackend = "neo4j"\ndebug = true\n[service]\nshared = ["town", "plans"]\n'
        "[embedder]\nprice = 0.5\n[schedule]\nautomation = false\n"
    )
    assert values({}) == {
        "PALIMPSEST_HOME": str(user_file().parent / "kept"),
        "PALIMPSEST_DATA": str(Path.home() / "data"),
        "PALIMPSEST_BACKEND": "neo4j",
        "PALIMPSEST_DEBUG": "1",
        "PALIMPSEST_SERVE_SHARED": "town,plans",
        "PALIMPSEST_EMBEDDER_PRICE": "0.5",
        "PALIMPSEST_AUTOMATION": "off",
    }


def test_the_project_file_is_found_up_to_the_root_of_the_repository_and_not_above(folders):
    inside = folders / "repository" / "a" / "b"
    inside.mkdir(parents=True)
    write_project(folders, "usage_days = 1\n")
    assert project_file(inside) == inside / "palimpsest.toml"
    (folders / "repository" / ".git").mkdir()
    assert project_file(inside) == inside / "palimpsest.toml"
    wanted = write_project(folders / "repository", "usage_days = 2\n")
    assert project_file(inside) == wanted
    environment: dict[str, str] = {}
    apply_layers(inside, environment)
    assert environment == {"PALIMPSEST_USAGE_DAYS": "2"}


def test_a_relative_path_is_relative_to_its_file(folders):
    (folders / ".git").mkdir()
    write_project(folders, 'home = "data/home"\n')
    environment: dict[str, str] = {}
    (folders / "deep").mkdir()
    apply_layers(folders / "deep", environment)
    assert environment == {"PALIMPSEST_HOME": str(folders / "data" / "home")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("usage_days = 1\n[lm\n", "line 2"),
        ("usage_day = 1\n", "no setting 'usage_day'; use usage_days"),
        ("[lm]\nsever = 1\n", "no setting 'lm.sever'; use lm.server"),
        ("[servic]\nport = 1\n", "use service.port"),
        ("PALIMPSEST_USAGE_DAYS = 1\n", "in a file it is usage_days"),
        ("zzz = 1\n", "palimpsest config show lists them"),
        ("lm = 1\n", "lm is a section"),
        ("[lm.server]\nx = 1\n", "lm.server"),
        ('usage_days = "1"\n', "usage_days: must be a whole number from 0 to 3,650; remove the quotes, or correct it"),
        ('[schedule]\nnightly = "at night"\n', "schedule.nightly: must be a cron expression of five fields"),
        ('[schedule]\ntimezone = "Berlin"\n', "schedule.timezone: must be the IANA name"),
        ("usage_days = true\n", "must be a whole number"),
        ("usage_days = 4000\n", "must be a whole number"),
        ('backend = "sqlite"\n', "must be one of 'duckdb', 'neo4j'"),
        ("debug = 1\n", "must be true or false"),
        ("[embedder]\nprice = nan\n", "must be a number of 0 or more"),
        ('[service]\nshared = "town"\n', "must be a list"),
        ('[service]\nshared = ["a,b"]\n', "must be a list"),
        ('[neo4j]\nheap = "1g\\n-X"\n', "a number with k, m or g"),
        ('[service]\njwt_issuer = "a\\nb"\n', "printable"),
        ('[service]\njwt_issuer = " "\n', "must be a text"),
        ("x = " + "[" * 5000 + "]" * 5000, "is no TOML"),
        ("# " + "x" * 300_000, "256 KiB"),
        ('home = "a"\nhome = "b"\n', "line 2"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_it(folders, text, message):
    path = write_project(folders, text)
    found = refusal()
    assert found.startswith(str(path)) and message in found and "\n" not in found


def test_bytes_that_are_no_utf8_are_named_with_their_line(folders):
    path = folders / "palimpsest.toml"
    path.write_bytes(b"usage_days = 1\n# caf\xe9\n")
    assert f"{path}: line 2: is no UTF-8" in refusal()


@pytest.mark.parametrize("key", [s.key for s in SETTINGS if s.is_secret])
def test_no_secret_may_be_in_a_project_file(folders, key):
    write_settings("user", user_file(), {BY_KEY[key]: "hunter2-hunter2-hunter2-hunter2-h"})
    user_file().rename(folders / "palimpsest.toml")
    found = refusal()
    assert key in found and "may have no secret" in found and "hunter2" not in found


def test_a_secret_in_a_user_file_that_others_may_read_is_refused(folders):
    path = write_user('[lm]\nkey = "hunter2"\n', 0o644)
    assert refusal() == f"{path}: lm.key is a secret, and others may read the file; chmod 600 {path}"
    path.chmod(0o600)
    assert values({}) == {"PALIMPSEST_LM_KEY": "hunter2"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_file_of_another_user_is_refused_and_not_skipped(folders):
    path = write_project(folders, "usage_days = 1\n")
    os.chown(path, OTHER_USER, OTHER_USER)
    assert "belongs to another user" in refusal()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_link_of_another_user_to_a_file_of_mine_is_refused(folders, tmp_path):
    (tmp_path / "mine.toml").write_text("usage_days = 1\n")
    link = folders / "palimpsest.toml"
    link.symlink_to(tmp_path / "mine.toml")
    assert values({}) == {"PALIMPSEST_USAGE_DAYS": "1"}
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert "belongs to another user" in refusal()


@pytest.mark.parametrize(("mode", "who"), [(0o666, "every user"), (0o664, "its group")])
def test_what_others_may_write_is_refused(folders, mode, who):
    path = write_project(folders, 'home = "elsewhere"\n')
    path.chmod(mode)
    assert f"{path}: {who} may write it" in refusal() and f"chmod go-w {path}" in refusal()


def test_a_project_file_that_is_written_under_a_wide_umask_can_be_read(folders):
    before = os.umask(0o002)
    try:
        write_settings("project", project_file(), {BY_KEY["usage_days"]: 3})
    finally:
        os.umask(before)
    assert values({}) == {"PALIMPSEST_USAGE_DAYS": "3"}


def test_no_value_is_in_an_error_of_a_file(folders):
    write_user('[service]\njwt_secret = "hunter2"\n')
    assert "service.jwt_secret: must be a text of 32 bytes or more" in refusal() and "hunter2" not in refusal()
    write_user('[lm]\nserver = ["m@http://me:hunter2@127.0.0.1/v1"]\n')
    assert "lm.server: must be a text" in refusal() and "hunter2" not in refusal()


def test_a_pipe_a_folder_and_a_broken_link_are_refused_without_waiting(folders):
    path = folders / "palimpsest.toml"
    os.mkfifo(path)
    assert "no regular file" in refusal()
    path.unlink()
    path.mkdir()
    assert str(path) in refusal()
    path.rmdir()
    path.symlink_to(folders / "gone")
    assert "leads nowhere" in refusal()


def test_a_project_file_may_not_send_texts_elsewhere_until_it_is_trusted(folders):
    path = write_project(folders, '[lm]\nserver = "m@http://elsewhere.invalid/v1"\n')
    assert "lm.server" in refusal() and "palimpsest config trust" in refusal()
    assert values({"PALIMPSEST_LM": "mine@http://127.0.0.1:1/v1"})["PALIMPSEST_LM"].startswith("mine@")
    trust(path, path.read_bytes())
    assert values({}) == {"PALIMPSEST_LM": "m@http://elsewhere.invalid/v1"}
    path.write_text(path.read_text().replace("elsewhere", "evil"))
    assert "palimpsest config trust" in refusal()


def test_what_a_user_file_says_needs_no_trust(folders):
    write_user('[neo4j]\nuri = "bolt://db.example.org"\n')
    assert values({}) == {"NEO4J_URI": "bolt://db.example.org"}


def test_a_key_in_the_environment_hides_another_kind_of_key_in_a_file(folders):
    write_user(f'[service]\njwt_secret = "{"k" * 40}"\n')
    assert values({"PALIMPSEST_JWKS_URL": "https://id.example.org"}) == {
        "PALIMPSEST_JWKS_URL": "https://id.example.org"
    }
    assert values({"PALIMPSEST_JWKS_URL": ""})["PALIMPSEST_JWT_SECRET"] == "k" * 40


def test_secrets_and_passwords_in_addresses_are_not_shown(folders):
    write_user('[lm]\nkey = "hunter2"\n[embedder]\nurl = "http://me:hunter2@127.0.0.1/v1"\n')
    shown = [str((setting_row(r), setting_json(r))) for r in resolve(read_layers(), {"NEO4J_PASSWORD": "hunter2"})]
    assert "hunter2" not in "\n".join(shown) and "http://***@127.0.0.1/v1" in "\n".join(shown)


def test_a_change_keeps_comments_and_other_settings(folders):
    path = write_user("# mine\nusage_days = 3 # days\n\n[lm]\n# local\nconcurrency = 2\n")
    write_settings("user", path, {BY_KEY["lm.rpm"]: 5, BY_KEY["service.port"]: 9000, BY_KEY["usage_days"]: None})
    text = path.read_text()
    assert "# mine" in text and "# local\nconcurrency = 2\nrpm = 5" in text and "usage_days" not in text
    assert values({}) == {"PALIMPSEST_LM_CONCURRENCY": "2", "PALIMPSEST_LM_RPM": "5", "PALIMPSEST_SERVE_PORT": "9000"}


def test_of_changes_at_once_none_is_lost(folders):
    wanted = {"usage_days": 1, "log_days": 2, "run_days": 3, "log_mib": 4}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: write_settings("user", user_file(), {BY_KEY[item[0]]: item[1]}), wanted.items()))
    assert sorted(values({}).values()) == ["1", "2", "3", "4"]


def test_a_file_that_is_written_is_private_even_where_it_was_not(folders):
    path = write_user("usage_days = 3\n", 0o644)
    write_settings("user", path, {BY_KEY["lm.key"]: "hunter2"})
    assert path.stat().st_mode & 0o777 == 0o600 and values({})["PALIMPSEST_LM_KEY"] == "hunter2"


def test_the_table_names_each_setting_once_and_its_defaults_are_valid():
    assert len(BY_KEY) == len(BY_VARIABLE) == len(SETTINGS)
    assert {s.section for s in SETTINGS} <= set(SECTIONS)
    assert not {s.key for s in SETTINGS if not s.section} & set(SECTIONS)
    for setting in SETTINGS:
        if setting.kind in ("whole", "amount", "choice") and (text := setting.default.strip("`")) not in (
            "none",
            "no limit",
        ):
            setting.from_text(text)


def test_every_variable_that_the_code_reads_is_in_the_table():
    """A new variable needs a row, or files could not set it. The companions of PALIMPSEST_LM are read by suffix."""
    set_by_palimpsest = {"PALIMPSEST_CONFIG", "PALIMPSEST_CLOSED", "NEO4J_HOME", "NEO4J_CONF"}
    table = ROOT / "pipelines/palimpsest/core/configuration"
    found: set[str] = set()
    for file in (*(ROOT / "pipelines").rglob("*.py"), *(ROOT / "eval").rglob("*.py")):
        if file.parent != table:
            found |= set(re.findall(r"""["']((?:PALIMPSEST|NEO4J)_[A-Z0-9_]+)["']""", file.read_text()))
    assert found - set_by_palimpsest <= set(BY_VARIABLE)


def test_a_value_from_the_command_line_is_checked_as_one_of_a_file():
    whole = Setting("x", "X", "1", "whole", 1, 5)
    assert whole.from_text("5") == 5
    for wrong in ("6", "x", "1.5", ""):
        with pytest.raises(ValueError, match="whole number"):
            whole.from_text(wrong)
    assert Setting("x", "X", "on", "switch").from_text("off") is False
    assert Setting("x", "X", "none", "names").from_text(" a, b,") == ["a", "b"]
