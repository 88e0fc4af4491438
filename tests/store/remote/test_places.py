"""Where a home may be: URLs that every library reads alike, no home inside another, and no key in a message."""

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.home import Home
from palimpsest.store.remote_home import _S3History, erase_from_store, local_home
from palimpsest.store.table_store import TableStore, open_store
from tests.command import run

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@pytest.mark.parametrize(
    "url",
    [
        *(
            f"s3://bucket/{p}"
            for p in ("a%20b", "a%2Fb", "a?b", "a#b", "a/../b", "a/./b", "..", "a*b", "a\\b", "a\nb", "a[b]")
        ),
        *(f"s3://{b}/home" for b in ("user:zqsecret@bucket", "bucket:80", "buc ket", "[bucket")),
        "az://box/home?sig=zqsecret",
    ],
)
def test_a_url_that_libraries_read_differently_is_refused(url):
    with pytest.raises(PalimpsestError) as raised:
        open_store(url)
    assert raised.value.exit_code == 2 and "zqsecret" not in str(raised.value)


def test_a_prefix_with_spaces_and_letters_is_searched_where_it_was_written(s3, bucket):
    for prefix in ("my home", "käse.a-b_c=d+e", "a/b"):
        history = _S3History(written_and_deleted(f"s3://{bucket}/{prefix}").url)
        assert history.purge() == 2 and not [*history.list()]


def written_and_deleted(url: str) -> TableStore:
    """A store with one object of content, which was deleted: a version and a marker are left."""
    store = open_store(url)
    store.create("objects/00000001/a", b"1")
    store.delete(["objects/00000001/a"])
    return store


def test_a_url_with_a_query_ends_the_command_with_one_line():
    done = run("query", "x", "--home", "s3://bucket/home?token=zqsecret")
    assert done.returncode == 2 and "zqsecret" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "http://",
        "ftp://host",
        "http://a:zqsecret@host",
        "http://host/?key=zqsecret",
        "http://host:x",
        "127.0.0.1:9000",
    ],
)
def test_an_endpoint_that_is_none_is_one_line_and_exit_code_2(name, value, monkeypatch):
    for other in ENDPOINTS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(PalimpsestError, match=f"{name}: write the address of the store") as raised:
        open_store("s3://bucket/home")
    assert raised.value.exit_code == 2 and "zqsecret" not in str(raised.value)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_proof_searches_the_store_that_was_written(name, s3, s3_server, url, monkeypatch):
    for other in ENDPOINTS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, s3_server)
    assert len([*_S3History(written_and_deleted(url).url).list()]) == 2


def test_a_proof_uses_the_region_of_the_store(s3, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert _S3History("s3://bucket/home")._client.meta.region_name == "eu-central-1"


def test_versions_of_what_others_have_stay_and_markers_go_after_the_versions_that_they_hide(s3, bucket, url):
    for text in (b"1", b"2"):
        s3.put_object(Bucket=bucket, Key="home/report.txt", Body=text)
    s3.create_multipart_upload(Bucket=bucket, Key="home/large.bin")
    history, removed = _S3History(written_and_deleted(url).url), []
    history._client.meta.events.register(
        "before-parameter-build.s3.DeleteObjects", lambda params, **_: removed.extend(params["Delete"]["Objects"])
    )
    assert history.purge() == 2 == len(removed)
    found = s3.list_object_versions(Bucket=bucket)
    assert found.get("DeleteMarkers") is None and len(found["Versions"]) == 2
    assert len(s3.list_multipart_uploads(Bucket=bucket)["Uploads"]) == 1
    version = removed[0]["VersionId"]
    assert version != "null" and removed.index({"Key": "home/objects/00000001/a", "VersionId": version}) == 0


@pytest.mark.parametrize(("first", "second"), [("home", "home/inner"), ("home/a/inner", "home")])
def test_a_home_inside_another_is_refused(first, second, bucket):
    with Home(local_home(f"s3://{bucket}/{first}")).lock():
        pass
    other = Home(local_home(f"s3://{bucket}/{second}"))
    with pytest.raises(PalimpsestError, match=f"home s3://{bucket}/{second}: .*inside"), other.lock():
        pass
    with Home(local_home(f"s3://{bucket}/{first}-2")).lock():
        pass


def test_a_delete_needs_the_lease_and_one_that_is_renewed_during_the_proof_is_no_residue(url, monkeypatch):
    home, purge = Home(local_home(url)), _S3History.purge
    with pytest.raises(ComponentFailed, match="does not have the lease"):
        erase_from_store(home.path)

    def purge_and_renew(history: _S3History) -> int:
        removed = purge(history)
        store = open_store(history._url)
        found = store.read("lease.json")
        store.replace("lease.json", found.data + b" ", found.version)
        return removed

    monkeypatch.setattr(_S3History, "purge", purge_and_renew)
    with home.lock():
        (home.path / "new").write_text("1")
        proof = erase_from_store(home.path)
    assert proof is not None and proof.residue == ()
