"""No page, redirect or name leads to an address that only this machine or its network can reach."""

import socket
import threading
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

import pycurl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.sources.crawl import CrawlOptions, ingest_site, ingest_url
from palimpsest.sources.crawl.address_guard import VARIABLE, AddressPolicy, AddressRefused
from palimpsest.sources.crawl.analyze_site import analyze_site
from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed, FetchLimits
from tests.sources.crawl.local_site import LocalSite, html, redirect, serve, sitemap_index


def embedded(address: str) -> tuple[str, ...]:
    """Returns the IPv6 addresses that stand for an IPv4 address: mapped, by NAT64, by 6to4 and by Teredo."""
    number = int(IPv4Address(address))
    high, low, inverted = number >> 16, number & 0xFFFF, number ^ 0xFFFFFFFF
    teredo = f"2001:0:4136:e378:8000:63bf:{inverted >> 16:x}:{inverted & 0xFFFF:x}"
    return f"::ffff:{address}", f"64:ff9b::{high:x}:{low:x}", f"2002:{high:x}:{low:x}::1", teredo


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "192.0.0.8", "192.88.99.1", "168.63.129.16", "fec0::1", "feff::1", "::7f00:1", "64:ff9b:1::7f00:1",
    *(form for inner in ("10.1.2.3", "169.254.169.254", "168.63.129.16", "192.0.0.8") for form in embedded(inner)),
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_in_all_their_forms(address):
    with pytest.raises(AddressRefused, match="has the private address"):
        AddressPolicy().check("innocent.example", 80, ["93.184.216.34", address])


def test_public_addresses_are_permitted_in_all_their_forms_on_ports_of_the_web_alone():
    assert AddressPolicy().check("example.org", 443, ["93.184.216.34", "2606:2800:220:1::1"])
    with pytest.raises(AddressRefused, match="port 22"):
        AddressPolicy().check("example.org", 22, ["93.184.216.34"])
    for address in embedded("93.184.216.34")[:3]:
        assert AddressPolicy().check("example.org", 443, [address]) == [address]


def test_the_operator_permits_hosts_ports_and_networks(monkeypatch):
    monkeypatch.setenv(VARIABLE, "Wiki.corp, build.corp:8081, 10.1.0.0/16, [::1]:9000")
    policy = AddressPolicy.from_environment()
    assert policy.check("wiki.corp", 4444, ["192.168.1.9"]) and policy.check("any.corp", 80, ["10.1.7.7"])
    assert policy.check("build.corp", 8081, ["127.0.0.1"]) and policy.check("localhost", 9000, ["::1"])
    for host, port, address in [
        ("build.corp", 80, "127.0.0.1"),
        ("other.corp", 80, "192.168.1.9"),
        ("x.wiki.corp", 80, "192.168.1.9"),
        ("wiki.corp", 80, "169.254.169.254"),  # the service of a cloud that gives out keys
        ("any.corp", 80, "10.2.0.1"),
    ]:
        with pytest.raises(AddressRefused):
            policy.check(host, port, [address])


@pytest.mark.parametrize("entry", ["a b", "wiki.corp:port", "10.0.0.0/99", "http://wiki.corp"])
def test_an_entry_that_is_no_host_is_named(monkeypatch, entry):
    monkeypatch.setenv(VARIABLE, entry)
    with pytest.raises(PalimpsestError, match=VARIABLE):
        AddressPolicy.from_environment()


@pytest.fixture
def inner() -> Iterator[LocalSite]:
    """A server that nobody permits."""
    with serve({"/": html("Inner secret."), "/sitemap.xml": html("Inner.")}) as local:
        yield local


def test_nothing_is_asked_of_a_private_server_that_is_not_permitted(home, inner):
    port = inner.url.rpartition(":")[2]
    for url in (inner.url, f"http://localhost:{port}", f"http://2130706433:{port}", f"http://0x7f.1:{port}"):
        for read in (ingest_url, ingest_site):
            with pytest.raises(PalimpsestError, match=rf"private address .*{VARIABLE}"):
                read(home, url)
        with pytest.raises(PalimpsestError, match="private address"):
            analyze_site(url)
    assert inner.requests == []


def test_a_page_behind_a_redirect_to_a_private_address_is_not_read(home, site, inner, monkeypatch):
    port = site.url.rpartition(":")[2].strip("/")
    monkeypatch.setenv(VARIABLE, f"127.0.0.1:{port}")
    site.pages |= {"/": redirect(inner.url), "/ok": html("Ok.", "/hop"), "/hop": redirect(inner.url)}
    for read in (ingest_url, ingest_site):
        with pytest.raises(PalimpsestError, match="private address"):
            read(home, site.url)
    assert ingest_site(home, site.page("/ok"), CrawlOptions(depth=1)).stored == [site.page("/ok")]
    assert inner.requests == []


def test_robots_txt_and_sitemaps_lead_to_no_private_address(home, site, inner, monkeypatch):
    port = site.url.rpartition(":")[2].strip("/")
    monkeypatch.setenv(VARIABLE, f"127.0.0.1:{port}")
    site.pages |= {"/": html("Start."), "/sitemap.xml": sitemap_index(inner.page("/sitemap.xml"))}
    assert ingest_site(home, site.url).counts["new"] == 1
    site.pages["/robots.txt"] = redirect(inner.page("/robots.txt"))
    with pytest.raises(PalimpsestError, match="private address"):
        ingest_site(home, site.url)
    assert inner.requests == []


def test_a_name_that_changes_its_address_gains_nothing(site):
    """The first address is permitted, the next is not: every connection checks the address that it uses."""
    port = int(site.url.rpartition(":")[2].strip("/"))
    policy = AddressPolicy.from_environment()  # permits 127.0.0.1 alone
    site.pages["/"] = html("Start.")
    site.pages["/"].headers = {"Connection": "close"}
    url = f"http://rebinding.example:{port}/"
    with Fetcher(policy, addresses=[f"rebinding.example:{port}:127.0.0.1"]) as fetcher:
        assert fetcher.get(url).status == 200
        assert dict(site.requests)["/"]["Host"] == f"rebinding.example:{port}"
        fetcher._curl.setopt(pycurl.RESOLVE, [f"rebinding.example:{port}:127.0.0.2"])
        with pytest.raises(FetchFailed, match=r"private address 127\.0\.0\.2"):
            fetcher.get(url)
    assert len(site.requests) == 1


def test_each_connection_is_checked_at_the_address_that_it_is_made_to(site, monkeypatch):
    checked = []
    check = AddressPolicy.check

    def record(self: AddressPolicy, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        checked.append((host, port, *addresses))
        return check(self, host, port, addresses)

    monkeypatch.setattr(AddressPolicy, "check", record)
    site.pages |= {"/": html("Start."), "/a": html("A.")}
    port = int(site.url.rpartition(":")[2].strip("/"))
    with Fetcher(AddressPolicy.from_environment(), addresses=[f"one.example:{port}:127.0.0.1"]) as fetcher:
        for path in ("/", "/a"):
            assert fetcher.get(f"http://one.example:{port}{path}").status == 200
    assert checked == [("one.example", port, "127.0.0.1")] and len(site.connections) == 1


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_not_used(site, monkeypatch, name):
    with serve({}) as proxy:
        monkeypatch.setenv(name, proxy.url)
        site.pages["/"] = html("Start.")
        with Fetcher(AddressPolicy.from_environment()) as fetcher:
            assert fetcher.get(site.url).status == 200
        assert proxy.requests == []


def test_a_server_that_never_ends_its_headers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                try:
                    for n in range(10_000):
                        connection.sendall(f"X-{n}: y\r\n".encode())
                        threading.Event().wait(0.02)
                except OSError:
                    return

        threading.Thread(target=drip, daemon=True).start()
        policy = AddressPolicy.from_environment()
        assert policy.allowed == ()
        limits = FetchLimits(request_s=0.4)
        with Fetcher(_loopback(), limits) as fetcher, pytest.raises(FetchFailed, match="no whole response within"):
            fetcher.get(f"http://127.0.0.1:{server.getsockname()[1]}/")


def _loopback() -> AddressPolicy:
    from palimpsest.sources.crawl.address_guard import _parse_entry

    return AddressPolicy((_parse_entry("127.0.0.1"),))
