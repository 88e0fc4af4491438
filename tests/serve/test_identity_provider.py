"""A client of MCP finds the identity provider that a remote service trusts, signs in there, and reads its memories."""

import asyncio
import base64
import datetime as dt
import hashlib
import socket
import threading
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
import uvicorn
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from palimpsest.core.errors import PalimpsestError
from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings, TokenSettings, serve_settings
from palimpsest.store.home import Home
from tests.serve.conftest import client_of, start_server, text_of

SERVICE, PROVIDER = "https://memory.example", "https://id.example"


class MemoryStorage:
    """Keeps what a client of OAuth stores."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2048)


class Provider:
    """An identity provider on a loopback port, at which ann signs in: codes with PKCE, tokens for one resource."""

    def __init__(self, key: rsa.RSAPrivateKey):
        self.key, self.codes = key, dict[str, dict[str, str]]()
        ends = [("authorization", "GET"), ("token", "POST"), ("registration", "POST")]
        routes = [Route(f"/{name}", getattr(self, name), methods=[method]) for name, method in ends]
        found = [Route("/.well-known/oauth-authorization-server", self.metadata), Route("/keys", self.keys)]
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(Starlette(routes=[*routes, *found]), log_level="error"))
        threading.Thread(target=self.server.run, args=([listening],), daemon=True).start()

    async def metadata(self, _: Request) -> JSONResponse:
        ends = {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token", "registration")}
        lists = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        return JSONResponse({"issuer": self.url, **ends, **lists})

    async def keys(self, _: Request) -> JSONResponse:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return JSONResponse({"keys": [{**public, "kid": "k1", "alg": "RS256", "use": "sig"}]})

    async def registration(self, request: Request) -> JSONResponse:
        return JSONResponse({**await request.json(), "client_id": "desktop"}, 201)

    async def authorization(self, request: Request) -> RedirectResponse:
        sent = dict(request.query_params)
        self.codes["granted"] = sent
        return RedirectResponse(f"{sent['redirect_uri']}?code=granted&state={sent['state']}")

    async def token(self, request: Request) -> JSONResponse:
        sent = {n: v[0] for n, v in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(sent["code"])
        proof = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).decode().rstrip("=")
        if proof != asked["code_challenge"] or sent["resource"] != asked["resource"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        made = self.token_for(sent["resource"], asked["scope"])
        return JSONResponse({"access_token": made, "token_type": "Bearer", "scope": asked["scope"]})

    def token_for(self, audience: str, scope: str, minutes: int = 5) -> str:
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=minutes)
        claims = {"sub": "ann", "iss": self.url, "aud": audience, "scope": scope, "exp": ends}
        return jwt.encode(claims, self.key, "RS256", {"kid": "k1"})


@pytest.fixture(scope="module")
def remote(served, key):
    """A provider, and the address of a service in a process of its own that trusts it."""
    provider = Provider(key)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"PALIMPSEST_JWKS_URL": f"{provider.url}/keys", "PALIMPSEST_JWT_ISSUER": provider.url}
    settings |= {"PALIMPSEST_JWT_SECRET": "", "PALIMPSEST_SERVE_URL": f"http://127.0.0.1:{port}"}
    with start_server(served / "home", port=port, **settings) as (_, url):
        yield provider, url
    provider.server.should_exit = True


def settings_of(key: rsa.RSAPrivateKey, url: str = SERVICE) -> ServeSettings:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(*form).decode()
    return ServeSettings(TokenSettings(PROVIDER, f"{SERVICE}/mcp", public_key=public), url=url)


def test_a_client_that_knows_only_the_address_signs_in_and_reads(remote):
    _, url = remote
    opened: list[str] = []

    async def open_browser(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            opened.append((await browser.get(address)).headers["location"])

    async def callback() -> AuthorizationCodeResult:
        sent = parse_qs(urlsplit(opened[0]).query)
        return AuthorizationCodeResult(code=sent["code"][0], state=sent["state"][0])

    about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:9/callback"], client_name="desktop")  # type: ignore[list-item]
    storage = MemoryStorage()
    auth = OAuthClientProvider(f"{url}/mcp", about, storage, open_browser, callback)

    async def main() -> str:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            return text_of(await client.call_tool("search_memory", {"query": "What colour is my bike?"}))

    found = asyncio.run(main())
    assert "zqann" in found and "zqbob" not in found
    assert storage.tokens and storage.tokens.scope == "read write delete"


def test_a_token_that_has_expired_or_is_for_another_resource_is_refused_with_a_challenge(remote):
    provider, url = remote
    said = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    kinds = {"accept": "application/json, text/event-stream"}
    tokens = {
        "expired": provider.token_for(f"{url}/mcp", "read", minutes=-5),
        "elsewhere": provider.token_for("https://other.example/mcp", "read"),
        "host": provider.token_for(url, "read"),
        "forged": jwt.encode({"sub": "ann"}, "k" * 40, "HS256"),
    }
    for name, token in tokens.items():
        headers = kinds | {"authorization": f"Bearer {token}"}
        answers = [
            httpx2.post(f"{url}/mcp", json=said, headers=headers),
            httpx2.get(f"{url}/mcp", headers=headers),
            httpx2.get(f"{url}/search?q=x", headers=headers),
        ]
        for found in answers:
            challenge = found.headers["www-authenticate"]
            assert (found.status_code, 'error="invalid_token"' in challenge) == (401, True), name
            assert f'resource_metadata="{url}/.well-known/oauth-protected-resource/mcp"' in challenge
    reader = {"authorization": f"Bearer {provider.token_for(f'{url}/mcp', 'read')}"}
    refused = httpx2.post(f"{url}/memory", json={"text": "x"}, headers=reader)
    assert refused.status_code == 403
    assert refused.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="write"'
    assert httpx2.get(f"{url}/search?q=bike", headers=reader).status_code == 200


def test_the_metadata_names_the_provider_and_every_refusal_names_the_metadata(served, key):
    path = "/.well-known/oauth-protected-resource/mcp"
    client = client_of(create_app(Home(served / "home"), settings_of(key)), None)
    found = client.get(path).json()
    assert (found["resource"], found["authorization_servers"]) == (f"{SERVICE}/mcp", [PROVIDER])
    assert found["scopes_supported"] == ["read", "write", "delete"]
    challenges = [client.post("/mcp", json={}), client.get("/mcp"), client.get("/search?q=x")]
    assert {c.status_code for c in challenges} == {401}
    assert all(f'resource_metadata="{SERVICE}{path}"' in c.headers["www-authenticate"] for c in challenges)
    without = client_of(create_app(Home(served / "home"), settings_of(key, url="")), None)
    assert without.get(path).status_code == 404
    assert without.post("/mcp", json={}).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("url", "issuer", "message"),
    [
        ("memory.example", PROVIDER, "must be an address without a path"),
        (f"{SERVICE}/api", PROVIDER, "must be an address without a path"),
        (SERVICE, "", "needs the address of the identity provider as PALIMPSEST_JWT_ISSUER"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_at_the_start(url, issuer, message, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_JWT_SECRET", "k" * 40)
    monkeypatch.setenv("PALIMPSEST_JWT_ISSUER", issuer)
    monkeypatch.setenv("PALIMPSEST_SERVE_URL", url)
    with pytest.raises(PalimpsestError, match=message):
        serve_settings()
