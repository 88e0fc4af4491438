"""Which servers may be contacted: public addresses, and private ones that the operator of the home names.

A page, a redirect or a link must not make this machine read what only it can reach. An address is checked where a
connection to it is made, so that a name that changes its address gains nothing.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from palimpsest.core.errors import PalimpsestError

VARIABLE = "PALIMPSEST_WEB_ALLOW_PRIVATE"
_PUBLIC_PORTS = frozenset((80, 443, 8000, 8080, 8443, 8888))
_TRANSLATED = ip_network("64:ff9b::/96")  # NAT64: the last 32 bits are an IPv4 address

Address = IPv4Address | IPv6Address
# Global by some versions of Python, and yet of a machine's own network: for special purposes (RFC 3879, RFC 6890,
# RFC 7526), and where clouds serve the metadata of their machines.
_SPECIAL = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "fec0::/10")))


class AddressRefused(Exception):
    """A URL leads to an address that may not be contacted; the message names the fix."""


@dataclass(frozen=True)
class AllowedPrivate:
    """One entry of the variable: a host name or a network, on one port or on all."""

    host: str = ""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    def covers(self, host: str, port: int, address: Address | None) -> bool:
        """Returns whether a host is named, or its address is in the network."""
        if self.port is not None and self.port != port:
            return False
        if self.network is None:
            is_reachable = address is None or not (address.is_link_local or address.is_multicast)
            return self.host == host and is_reachable
        return address is not None and address.version == self.network.version and address in self.network


@dataclass(frozen=True)
class AddressPolicy:
    """Which private hosts and networks are contacted besides the public web."""

    allowed: tuple[AllowedPrivate, ...] = ()

    @classmethod
    def from_environment(cls) -> "AddressPolicy":
        """Returns what PALIMPSEST_WEB_ALLOW_PRIVATE names: hosts, addresses and networks, separated by commas.

        Raises:
            PalimpsestError: an entry is none of these.
        """
        entries = [e.strip() for e in os.environ.get(VARIABLE, "").split(",")]
        return cls(tuple(_parse_entry(e) for e in entries if e))

    def check(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        """Returns the addresses of a host, all of which may be contacted.

        Raises:
            AddressRefused: one of them may not.
        """
        for text in addresses:
            address = _unwrapped(ip_address(text.partition("%")[0]))
            if any(entry.covers(host, port, address) for entry in self.allowed):
                continue
            is_special = any(address in network for network in _SPECIAL if network.version == address.version)
            if is_special or not address.is_global or address.is_multicast or address.is_reserved:
                raise AddressRefused(f"{host} has the private address {address}; {VARIABLE}={host} permits it")
            if port not in _PUBLIC_PORTS:
                ports = ", ".join(map(str, sorted(_PUBLIC_PORTS)))
                raise AddressRefused(f"port {port} of {host} is none of {ports}; {VARIABLE}={host}:{port} permits it")
        return list(addresses)

    def names(self, host: str, port: int) -> bool:
        """Returns whether the operator named a host, or the network of a host that is an address."""
        try:
            address: Address | None = _unwrapped(ip_address(host))
        except ValueError:
            address = None
        return any(entry.covers(host, port, address) for entry in self.allowed)


def _parse_entry(entry: str) -> AllowedPrivate:
    """Parses one entry of the variable.

    Raises:
        PalimpsestError: it is no host, address or network.
    """
    try:
        return AllowedPrivate(network=ip_network(entry, strict=False))
    except ValueError:
        pass
    host, colon, port = entry.rpartition(":")
    if not colon:
        host, port = entry, ""
    number = int(port) if port.isascii() and port.isdigit() and int(port) < 65_536 else None
    host = host.strip("[]").lower()
    if (colon and number is None) or not host or not all(c.isalnum() or c in ".-_:" for c in host):
        raise PalimpsestError(
            f"{VARIABLE}: {entry[:80]!r} is no host, address or network such as wiki.corp or 10.1.0.0/16"
        )
    try:
        return AllowedPrivate(network=ip_network(host), port=number)
    except ValueError:
        return AllowedPrivate(host=host, port=number)


def _unwrapped(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 address contains, if any."""
    if isinstance(address, IPv6Address):
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        return inner or address
    return address
