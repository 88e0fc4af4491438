"""Identity comes from verified claims alone: no header, path, parameter or body chooses whose memories are read."""

import base64
import datetime as dt
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from palimpsest.core.errors import PalimpsestError
from palimpsest.serve.guard import BadToken, TokenVerifier, make_token
from palimpsest.serve.settings import TokenSettings, token_settings
from tests.serve.conftest import TOKENS

NOW = dt.datetime.now(dt.UTC)
CLAIMS = {"sub": "ann", "iss": "palimpsest", "aud": "palimpsest", "exp": NOW + dt.timedelta(hours=1)}
READS = ("/search?q=bike", "/graph", "/profile", "/api/v1/knowledge/nodes", "/api/v1/knowledge/edges")


def signed(key: str = TOKENS.secret, algorithm: str = "HS256", **claims: object) -> str:
    return jwt.encode({n: v for n, v in {**CLAIMS, **claims}.items() if v is not None}, key, algorithm=algorithm)


def unsigned() -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "typ": "JWT"}, {**CLAIMS, "exp": int(CLAIMS["exp"].timestamp())})
    )
    return f"{head}.{body}."


BAD = {
    "another key": lambda: signed("x" * 48),
    "no signature": unsigned,
    "another algorithm": lambda: signed(algorithm="HS512"),
    "expired": lambda: signed(exp=NOW - dt.timedelta(minutes=5)),
    "not valid yet": lambda: signed(nbf=NOW + dt.timedelta(hours=1)),
    "no expiry": lambda: signed(exp=None),
    "another issuer": lambda: signed(iss="elsewhere"),
    "another audience": lambda: signed(aud="elsewhere"),
    "no audience": lambda: signed(aud=None),
    "no user": lambda: signed(sub=None),
    "an empty user": lambda: signed(sub=" "),
    "a user that is a list": lambda: signed(sub=["ann"]),
    "projects that are a text": lambda: signed(projects="apollo"),
    "a changed letter": lambda: signed()[:-3] + "abc",
    "nothing": lambda: "",
    "no token at all": lambda: "ann",
}


def test_without_a_valid_bearer_token_nothing_is_read(clients):
    client = clients()
    for name, token in BAD.items():
        for path in READS:
            answer = client.get(path, headers={"Authorization": f"Bearer {token()}"})
            assert answer.status_code == 401, name
            challenge = "Bearer" if name == "nothing" else 'Bearer error="invalid_token"'
            assert answer.headers["WWW-Authenticate"] == challenge
            assert answer.headers["content-type"] == "application/problem+json" and "zq" not in answer.text
    for header in (None, "Basic YW5uOmFubg==", "Bearer", "ann"):
        for path in READS:
            answer = client.get(path, headers={"Authorization": header} if header else {})
            assert answer.status_code == 401 and "the request has no token" in answer.json()["detail"]
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_token_of_a_public_key_is_verified_and_the_key_is_no_secret():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(pem, form)
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    verifier = TokenVerifier(TokenSettings(public_key=public.decode()))
    assert verifier.verify(signed(private.decode(), "RS256")).user == "ann"
    forged = jwt.api_jws.PyJWS().encode(b"{}", b"x" * 32, algorithm="HS256")
    for token in (signed(), forged):
        with pytest.raises(BadToken):
            verifier.verify(token)


def test_no_parameter_header_or_body_chooses_the_user(clients):
    for path in READS:
        for name in ("user", "user_id", "sub", "scope", "token"):
            answer = clients("ann").get(f"{path}{'&' if '?' in path else '?'}{name}=bob")
            assert answer.status_code == 422 and "zqbob" not in answer.text
        answer = clients("ann").get(path, headers=dict.fromkeys(("X-User", "X-User-Id", "X-Forwarded-User"), "bob"))
        assert answer.status_code == 200 and "zqbob" not in answer.text
    for path in ("/memories/search", "/memories/search/hybrid", "/memories/search/hierarchical"):
        answer = clients("ann").post(path, json={"q": "bike", "user": "bob"})
        assert answer.status_code == 422 and "user" in answer.json()["detail"]
    assert clients("ann").post("/memory", json={"text": "Hello you.", "user": "bob"}).status_code == 422


def test_what_is_not_yours_answers_as_what_is_not_there(clients):
    ann, bob = clients("ann"), clients("bob")
    (memory,) = [m["memory_id"] for m in bob.get("/search?q=bike&collection=chats").json()["memories"]]
    assert bob.get(f"/memory/{memory}").status_code == 200
    for method, suffix in (("GET", ""), ("GET", "/history"), ("DELETE", "")):
        answers = [ann.request(method, f"/memory/{i}{suffix}") for i in (memory, "f" * 16, "nothing")]
        assert {a.status_code for a in answers} == {404} and len({a.text for a in answers}) == 1
    assert [ann.get(f"/search?q=bike&collection={c}").json()["memories"] for c in ("plans", "nowhere")] == [[], []]


def test_projects_permissions_and_shared_collections_follow_from_the_claims(clients):
    assert "zqgreen" not in clients("ann").get("/search?q=bike+rack&project=apollo").text
    with_project = clients("ann", projects=["apollo"])
    assert "zqgreen" in with_project.get("/search?q=bike+rack").text
    assert "zqgreen" not in clients("bob", projects=["apollo"]).get("/search?q=bike+rack").text
    for user in ("ann", "bob", "nobody"):
        found = clients(user).get("/search?q=When+does+the+library+open").json()["memories"]
        assert any("nine" in m["text"] for m in found)
    assert clients("nobody").get("/search?q=bike&collection=chats").json()["memories"] == []
    read = clients("bob").get("/search?q=When+does+the+library+open&accessed_within=1h").json()["memories"]
    assert all("nine" not in m["text"] for m in read), "who else read a shared memory is not shown"
    reader = clients("ann", permissions=["read"])
    assert reader.get("/search?q=bike").status_code == 200
    assert reader.post("/memory", json={"text": "Hello you."}).status_code == 403
    assert reader.delete("/users/me").status_code == 403
    assert clients("ann", permissions=[]).get("/search?q=bike").status_code == 403


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "none is set"),
        ({"PALIMPSEST_JWT_SECRET": "short"}, "32 bytes"),
        ({"PALIMPSEST_JWT_SECRET": "k" * 40, "PALIMPSEST_JWKS_URL": "https://x/y"}, "several are set"),
        ({"PALIMPSEST_JWKS_URL": "http://example.org/keys"}, "https://"),
        ({"PALIMPSEST_JWT_PUBLIC_KEY": "/nowhere"}, "No such file"),
    ],
)
def test_a_key_that_cannot_be_used_is_one_line(environment, message):
    with pytest.raises(PalimpsestError, match=message):
        token_settings(environment)


def test_tokens_for_development_need_a_secret():
    with pytest.raises(PalimpsestError, match="PALIMPSEST_JWT_SECRET"):
        make_token(TokenSettings(public_key="x"), "ann")
    with pytest.raises(PalimpsestError, match="--permission fly"):
        make_token(TOKENS, "ann", permissions=["fly"])
