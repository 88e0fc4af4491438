"""Keys and tokens that are known by their form: detect-secrets' patterns, and those of issuers that it lacks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

# (kind, module and class of detect-secrets' plugin, what one of its patterns always has in it). Left out are plugins
# for what is no secret (public addresses), for entropy alone (hashes and ids are everywhere), and for assignments.
_PLUGINS = (
    ("aws access key", "aws.AWSKeyDetector", ("AKIA", "ASIA", "A3T", "ABIA", "ACCA")),
    ("azure storage key", "azure_storage_key.AzureStorageKeyDetector", ("AccountKey=",)),
    ("discord token", "discord.DiscordBotTokenDetector", (".",)),
    ("github token", "github_token.GitHubTokenDetector", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("gitlab token", "gitlab_token.GitLabTokenDetector", ("gl", "GR1348941")),
    ("mailchimp key", "mailchimp.MailchimpDetector", ("-us",)),
    ("sendgrid key", "sendgrid.SendGridDetector", ("SG.",)),
    ("slack token", "slack.SlackDetector", ("xox", "hooks.slack.com")),
    ("square token", "square_oauth.SquareOAuthDetector", ("sq0",)),
    ("stripe key", "stripe.StripeDetector", ("_live_",)),
    ("twilio key", "twilio.TwilioKeyDetector", ("AC", "SK")),
)
_OWN = (
    ("anthropic key", r"sk-ant-[A-Za-z0-9_-]{20,400}", ("sk-ant-",)),
    ("databricks token", r"dapi[0-9a-f]{32}", ("dapi",)),
    ("digitalocean token", r"do[opr]_v1_[0-9a-f]{64}", ("_v1_",)),
    ("github token", r"github_pat_[A-Za-z0-9_]{22,255}", ("github_pat_",)),
    ("google api key", r"AIza[0-9A-Za-z_-]{35}", ("AIza",)),
    ("google oauth secret", r"GOCSPX-[0-9A-Za-z_-]{20,400}|ya29\.[0-9A-Za-z_-]{20,400}", ("GOCSPX-", "ya29.")),
    ("grafana token", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,400}", ("glsa_", "glc_")),
    ("hugging face token", r"hf_[A-Za-z0-9]{30,400}", ("hf_",)),
    (
        "json web token",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,4000}",
        ("eyJ",),
    ),
    ("linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,400}", ("lin_",)),
    ("new relic key", r"NRAK-[A-Z0-9]{27}", ("NRAK-",)),
    ("npm token", r"npm_[A-Za-z0-9]{36}", ("npm_",)),
    ("openai key", r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]{0,400}\d)[A-Za-z0-9_-]{32,400}", ("sk-",)),
    ("pypi token", r"pypi-AgE[A-Za-z0-9_-]{50,400}", ("pypi-AgE",)),
    ("shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", ("shp",)),
    ("slack token", r"xapp-\d-[A-Z0-9]{1,40}-\d{1,40}-[a-z0-9]{1,200}|xox[a-z]-[A-Za-z0-9-]{20,400}", ("xapp-", "xox")),
    ("stripe key", r"(?:[rsp]k_(?:live|test)|whsec)_[0-9a-zA-Z]{16,400}", ("k_live_", "k_test_", "whsec_")),
    ("telegram token", r"\d{8,10}:AA[0-9A-Za-z_-]{33}", (":AA",)),
    ("vault token", r"hv[sbr]\.[A-Za-z0-9_-]{24,400}", ("hvs.", "hvb.", "hvr.")),
    ("age secret key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", ("AGE-SECRET-KEY-",)),
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){0,20000}-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|[\s\\n]{0,8}[A-Za-z0-9+/=]{20,200}[A-Za-z0-9+/=\s\\]{0,20000})",
        ("PRIVATE KEY",),
    ),
    (
        "private key",
        r"PuTTY-User-Key-File-[23]:(?:[^P]|P(?!uTTY-User-Key)){0,20000}?Private-MAC: [0-9a-f]{40,64}",
        ("PuTTY-User-Key-",),
    ),
)
_ANYWHERE = ("private key", "azure storage key")  # may be next to letters
_INSIDE = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class _Form:
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    marks: tuple[str, ...]


@cache
def _forms() -> tuple[_Form, ...]:
    """Compiles the patterns. Only the plugins' patterns are used: nothing that could ask a server is called."""
    forms = []
    for kind, name, marks in _PLUGINS:
        module, _, plugin = name.partition(".")
        found = getattr(import_module(f"detect_secrets.plugins.{module}"), plugin)
        forms.append(_Form(kind, tuple(found.denylist), marks))
    return (*forms, *(_Form(kind, (re.compile(pattern),), marks) for kind, pattern, marks in _OWN))


@cache
def _any_mark() -> re.Pattern[str]:
    return re.compile("|".join(sorted({re.escape(mark) for form in _forms() for mark in form.marks})))


def find_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of keys and tokens of a known form; they may overlap."""
    if not _any_mark().search(text):
        return
    for form in _forms():
        if any(mark in text for mark in form.marks):
            for pattern in form.patterns:
                for m in pattern.finditer(text):
                    group = 1 if pattern.groups == 1 and form.kind == "aws access key" else 0
                    start, end = m.span(group)
                    alone = form.kind in _ANYWHERE or _stands_alone(text, start, end)
                    if alone and (form.kind != "json web token" or _is_jwt(m[0])):
                        yield start, end, form.kind


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Returns whether a match is not a piece of something longer, such as encoded data."""
    return not (start and _INSIDE.match(text[start - 1])) and not (end < len(text) and _INSIDE.match(text[end]))


def _is_jwt(token: str) -> bool:
    from detect_secrets.plugins.jwt import JwtTokenDetector

    return bool(JwtTokenDetector.is_formally_valid(token))
