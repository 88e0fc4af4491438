"""Sentences, settings and code that were read while the detector was written; `{v}` is the drawn value.

TUNE was read first. SEEN was kept apart first, and showed that the detector found too little. *_CLEAN surround values
that only look like secrets.
"""

from tests.secrets.secret_values import KINDS_BY_FORM, split_texts

TUNE = split_texts(
    dict.fromkeys(
        KINDS_BY_FORM,
        "Use {v} for the staging deploy. ¦ export SERVICE_KEY={v} ¦ I pasted the key: {v}, please rotate it. ¦ "
        '{{"client": {{"id": 7, "value": "{v}"}}}}',
    )
    | {
        "aws secret key": 'aws_secret_access_key = {v} ¦ AWS_SECRET_ACCESS_KEY="{v}" ¦ secret_key: {v}',
        "azure storage key": "DefaultEndpointsProtocol=https;AccountName=demo;AccountKey={v}; ¦ AccountKey={v}",
        "private key": "Here is the key of the old host:\n{v}\nDo not share it. ¦ cat > id <<EOF\n{v}\nEOF",
        "password": (
            'DB_PASSWORD={v} ¦ password: {v} ¦ login(user="ana", password="{v}") ¦ '
            'The wifi password is {v} for guests. ¦ {{"username": "ana", "passwd": "{v}"}} ¦ pwd={v};Server=db1 ¦ '
            "mysql --user=root --password={v} shop"
        ),
        "password in a url": "postgres://app:{v}@db.internal:5432/shop ¦ git clone https://ana:{v}@git.acme.io/x.git",
        "generic key": "api_key = '{v}' ¦ API-Key: {v} ¦ client_secret: \"{v}\" ¦ x-api-key={v}",
        "bearer token": "Authorization: Bearer {v} ¦ curl -H 'Authorization: Bearer {v}' https://api.acme.io/v1",
        "card number": 'My card is {v}, exp 09/28. ¦ charge {v} for 20 euros ¦ "pan": "{v}"',
        "bank account number": "Please wire it to {v}. ¦ IBAN: {v} ¦ My account is {v}, thanks",
    }
)

SEEN = split_texts(
    dict.fromkeys(
        KINDS_BY_FORM,
        "Heads up, someone committed {v} last night! ¦     token: '{v}'  # prod ¦ "
        "- name: DEPLOY_CREDENTIAL\n  value: {v} ¦ It says invalid credential ({v}) when I run it",
    )
    | {
        "aws secret key": (
            'aws configure set aws_secret_access_key {v} ¦   "secretAccessKey": "{v}", ¦ Secret key = {v}'
        ),
        "azure storage key": (
            "conn = 'AccountName=acme;AccountKey={v};EndpointSuffix=core.windows.net' ¦ "
            "set AccountKey={v} in the portal"
        ),
        "private key": "key: |\n{v}\nuser: deploy ¦ {v}",
        "password": (
            "Password : {v} ¦ root_password='{v}' ¦ my new passphrase is {v}, write it down ¦ SMTP_PASS={v} ¦ "
            "$ sshpass -p '{v}' ssh ana@host ¦ <password>{v}</password> ¦ user ana / password {v} ¦ pass: {v} ¦ "
            "Das Passwort ist {v}."
        ),
        "password in a url": (
            "redis://:{v}@cache:6379/0 ¦ amqp://guest:{v}@mq.local/vh ¦ ftp://joe:{v}@files.example.org"
        ),
        "generic key": (
            "apikey={v}&format=json ¦ STRIPE_WEBHOOK_SECRET: {v} ¦ secret: '{v}' ¦ my API key is {v} ¦ "
            'headers = {{"X-Auth-Token": "{v}"}}'
        ),
        "bearer token": '"Authorization": "Bearer {v}" ¦ authorization: token {v} ¦ bearer {v} was in the log',
        "card number": "Card no. {v} (Visa) ¦ paid with {v} ¦ cc={v}&cvv=123",
        "bank account number": "Konto {v} ¦ account {v} at the bank in town ¦ iban={v}",
    }
)

TUNE_CLEAN = split_texts(
    {
        "sha1": "Fixed in commit {v}. ¦ git revert {v}",
        "short sha": "Merge {v} into main",
        "sha256": "image: shop@sha256:{v} ¦ checksum = {v}",
        "uuid": 'Request {v} timed out. ¦ session_id: {v} ¦ "trace": "{v}"',
        "isbn": "Read it: ISBN {v}.",
        "phone": "Call me at {v}. ¦ Fax: {v}",
        "bad card": "Order number {v} was shipped. ¦ Ticket {v} is open.",
        "bad iban": "The form rejected {v}.",
        "order": "Your order {v} is on its way. ¦ parcel={v}",
        "image": '<img src="{v}">',
        "integrity": '"integrity": "{v}"',
        "nanoseconds": "ts={v} level=info ¦ Started at {v}.",
        "version": "Upgrade to {v} today. ¦ polars=={v}",
        "number": "token count: {v} ¦ max_tokens={v} ¦ password_max_age: {v} ¦ The secret is in room {v}.",
        "word": (
            "The password is on the {v}. ¦ I forgot my password for {v}. ¦ password = os.environ['{v}'] ¦ "
            "Secret santa: {v} draws first. ¦ Ask {v} for the api key. ¦ password: str = {v} ¦ "
            "def login(user, password=None): return {v} ¦ the token is invalid, said {v}"
        ),
        "identifier": (
            "password = get_{v}() ¦ api_key=settings.{v} ¦ PASSWORD=${{{v}}} ¦ token = {v}.next() ¦ "
            "secret = config['{v}'] ¦ if password == {v}:"
        ),
        "name": "{v} changed her password yesterday. ¦ Password policy: {v} decides. ¦ Key account: {v}",
        "path": "secrets live in vault/{v} ¦ https://acme.io/docs/{v}?page=2 ¦ ssl_key: /etc/ssl/{v}.pem",
        "slug": "Branch {v} is green. ¦ token: your-{v}-here",
        "video": "https://youtu.be/{v}",
        "public key": "{v} ana@laptop",
        "certificate": "{v}",
        "tracking": "UPS {v}",
        "address": "inet6 {v}",
        "day": "Password changed: {v} ¦ The API key expires on {v}.",
    }
)

SEEN_CLEAN = split_texts(
    {
        "sha1": "See {v} for the change ¦ pin actions/checkout@{v} ¦ blob {v} 1204",
        "short sha": "deployed {v} at noon ¦ HEAD is now at {v} Add tests",
        "sha256": "sha256: {v} ¦ Digest: sha256:{v} ¦ {v}  shop-1.0.tar.gz",
        "uuid": "user {v} logged in ¦ token_id: {v} ¦ DELETE /items/{v} 204",
        "isbn": "ISBN-13: {v} (paperback)",
        "phone": "Tel {v} ¦ WhatsApp {v} after six",
        "bad card": "invoice no {v} ¦ Customer {v} complained. ¦ serial: {v}",
        "bad iban": "{v} is a typo, the bank says ¦ IBAN {v} has a wrong digit",
        "order": "Return label {v} ¦ SKU {v} is sold out",
        "image": "![chart]({v}) ¦ background: url({v})",
        "integrity": 'integrity {v} ¦ "hash": "{v}"',
        "nanoseconds": '[{v}] worker ready ¦ "time_unix_nano": {v}',
        "version": "pip install shop=={v} ¦ v{v} breaks the api token page ¦ secrets-store {v} was released",
        "number": (
            "tokens used: {v} ¦ password length: {v} ¦ Each token costs {v} cents ¦ api_key_limit = {v} ¦ "
            "The passcode has {v} digits."
        ),
        "word": (
            "Password: required ¦ Enter your password, then click {v}. ¦ "
            "password: {{type: string, minLength: 8}} ¦ the {v} keeps its secret ¦ "
            "passwords are stored in the {v} manager ¦ const password = req.body.password; // {v} ¦ "
            "export TOKEN=$(cat {v}) ¦ secret: {v} ¦ Password: <{v}> ¦ pwd; ls {v} ¦ api key: see the {v} vault ¦ "
            "`--password PASSWORD` sets the {v} ¦ password is wrong for {v} ¦ pass the {v}: it is your turn"
        ),
        "identifier": (
            "password=self.{v} ¦ token := {v}.Token() ¦ apiKey: process.env.{v} ¦ new Secret({v}) ¦ "
            "hash_password({v}) ¦ PASSWORD = os.getenv('{v}', '') ¦ credentials={v}.default() ¦ "
            "tokens = tokenizer({v})"
        ),
        "name": "{v} lost the key to the bike. ¦ Reset password for {v}? ¦ The passphrase was chosen by {v}.",
        "path": "mount secret/{v} read-only ¦ see https://acme.io/reset-password/{v} ¦ keyfile={v}.key",
        "slug": "api_key: <{v}> ¦ password: changeme-{v}-placeholder ¦ tags: token, {v}",
        "video": 'watch?v={v}&t=10 ¦ etag: W/"{v}"',
        "public key": "authorized_keys has {v} ¦ deploy key (public): {v}",
        "certificate": "tls.crt: |\n{v}",
        "tracking": "Your parcel {v} arrives tomorrow",
        "address": "ping6 {v} ¦ listen [{v}]:443",
        "day": "password expires {v} ¦ secret rotated {v} ¦ token valid until {v}",
    }
)
