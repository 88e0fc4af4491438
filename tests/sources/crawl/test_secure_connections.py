"""Over https a certificate must be of the name in the URL, whatever address it has."""

import datetime as dt
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from palimpsest.sources.crawl.address_guard import VARIABLE, AddressPolicy
from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed


def write_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Writes a certificate of a host that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server over https that is called secure.example."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"secure")

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:  # a client that does not trust it
            pass

    certificate, key = write_certificate(tmp_path, "secure.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv(VARIABLE, "127.0.0.1")
    yield server.server_port
    server.shutdown()
    server.server_close()


def fetch(host: str, port: int) -> bytes:
    with Fetcher(AddressPolicy.from_environment(), addresses=[f"{host}:{port}:127.0.0.1"]) as fetcher:
        return fetcher.get(f"https://{host}:{port}/").body


def test_the_name_of_the_url_is_verified_and_a_certificate_that_nobody_vouches_for_refused(port, monkeypatch):
    assert fetch("secure.example", port) == b"secure"
    with pytest.raises(FetchFailed, match="certificate"):
        fetch("other.example", port)
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(FetchFailed, match="certificate"):
        fetch("secure.example", port)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl names a certificate by its hash")
def test_authorities_of_the_system_are_trusted(port, monkeypatch, tmp_path):
    """A folder of certificates by the hashes of their names, as Debian has it in /etc/ssl/certs."""
    command = ["openssl", "x509", "-noout", "-hash", "-in", str(tmp_path / "certificate.pem")]
    name = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / f"{name}.0").write_bytes((tmp_path / "certificate.pem").read_bytes())
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert fetch("secure.example", port) == b"secure"
