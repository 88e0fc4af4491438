"""A client of MCP finds the identity provider that a remote service trusts, signs in there, and reads its memories."""

import asyncio
import datetime as dt
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from palimpsest.core.errors import PalimpsestError
from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings, TokenSettings, serve_settings
from palimpsest.store.home import Home
from tests.serve.conftest import client_of, text_of

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


def provider(key: rsa.RSAPrivateKey) -> Starlette:
    """An identity provider at which ann signs in; a token is for the resource and the scopes that were asked for."""
    granted: dict[str, str] = {}

    async def metadata(_: Request) -> JSONResponse:
        ends = {f"{name}_endpoint": f"{PROVIDER}/{name}" for name in ("authorization", "token", "registration")}
        lists = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        return JSONResponse({"issuer": PROVIDER, **ends, **lists})

    async def register(request: Request) -> JSONResponse:
        sent = await request.json()
        granted["scope"] = sent.get("scope", "")
        return JSONResponse({**sent, "client_id": "desktop"}, 201)

    async def token(request: Request) -> JSONResponse:
        sent = parse_qs((await request.body()).decode())
        claims = {"sub": "ann", "iss": PROVIDER, "aud": sent["resource"][0], "scope": granted["scope"]}
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
        return JSONResponse({"access_token": jwt.encode({**claims, "exp": ends}, key, "RS256"), "token_type": "Bearer"})

    return Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/registration", register, methods=["POST"]),
            Route("/token", token, methods=["POST"]),
        ]
    )


def settings_of(key: rsa.RSAPrivateKey, url: str = SERVICE) -> ServeSettings:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(*form).decode()
    return ServeSettings(TokenSettings(PROVIDER, f"{SERVICE}/mcp", public_key=public), url=url)


def test_a_client_that_knows_only_the_address_signs_in_and_reads(served, key):
    app = create_app(Home(served / "home"), settings_of(key))
    opened: list[str] = []

    async def open_browser(url: str) -> None:
        opened.append(url)

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code="granted", state=parse_qs(urlsplit(opened[0]).query)["state"][0])

    about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:9/callback"], client_name="desktop")  # type: ignore[list-item]
    auth = OAuthClientProvider(f"{SERVICE}/mcp", about, MemoryStorage(), open_browser, callback)
    mounts = {PROVIDER: httpx2.ASGITransport(provider(key)), SERVICE: httpx2.ASGITransport(app)}

    async def main() -> str:
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(auth=auth, mounts=mounts) as http,
            Client(streamable_http_client(f"{SERVICE}/mcp", http_client=http)) as client,
        ):
            return text_of(await client.call_tool("search_memory", {"query": "What colour is my bike?"}))

    found = asyncio.run(main())
    assert "zqann" in found and "zqbob" not in found
    assert opened[0].startswith(f"{PROVIDER}/authorization?")


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
