"""Sentences, settings and code that the detector was measured on once; `{v}` is the drawn value.

They were written before the detector was fixed, and measured after it was. HELD_OUT_CLEAN surrounds values that only
look like secrets.
"""

from tests.secrets.secret_values import KINDS_BY_FORM, split_texts

HELD_OUT = split_texts(
    dict.fromkeys(
        KINDS_BY_FORM,
        "what does {v} mean? ¦ | prod | {v} | ana | ¦ curl https://api.acme.io -H 'k: {v}' ¦ `{v}` is the new one",
    )
    | {
        "aws secret key": 'AWS_SECRET_ACCESS_KEY={v} python run.py ¦ secret access key: {v} ¦ aws_secret_key="{v}"',
        "azure storage key": "connection string: AccountName=x;AccountKey={v} ¦ AccountKey: {v}",
        "private key": "```\n{v}\n``` ¦ she mailed me this\n\n{v}\n\nis it ok?",
        "password": (
            "spring.datasource.password={v} ¦ ansible_password: {v} ¦ 'password' => '{v}', ¦ "
            'password := "{v}" ¦ my password is: {v} ¦ Login: ana, Password: {v}. ¦ MYSQL_ROOT_PASSWORD: {v} ¦ '
            "backup --db-password {v} ¦ wifi pw: {v} ¦ PGPASSWORD={v} psql -h db ¦ "
            "new password: {v} (the old one expired)"
        ),
        "password in a url": (
            "mongodb+srv://svc:{v}@cluster0.mongodb.net/db ¦ DATABASE_URL=mysql://root:{v}@127.0.0.1/shop ¦ "
            "hook: https://bot:{v}@example.org/x"
        ),
        "generic key": (
            "API_KEY={v} ¦ \"apiKey\": \"{v}\", ¦ client-secret={v} ¦ 'app_secret' => '{v}' ¦ encryption key: {v}"
        ),
        "bearer token": (
            "'authorization': 'Bearer {v}' ¦ wget --header \"Authorization: Bearer {v}\" ¦ "
            "access_token={v}&expires_in=3600 ¦ refresh_token: {v}"
        ),
        "card number": "Visa {v} ¦ card number: {v} ¦ pan={v}; ¦ It was charged to {v}. ¦ ({v})",
        "bank account number": "to: {v}; amount: 20 ¦ my bank details: {v} (Ana) ¦ iban:{v} ¦ {v}",
    }
)

HELD_OUT_CLEAN = split_texts(
    {
        "sha1": "cherry-picked from {v} ¦ rev = '{v}' ¦ etag {v}",
        "short sha": "bisect says {v} ¦ build {v} failed",
        "sha256": "sha256sum says {v} ¦ layer {v}: pulled",
        "uuid": "correlation id {v} ¦ urn:uuid:{v} ¦ key: {v}",
        "isbn": "isbn={v}",
        "phone": "My number: {v} ¦ tel:{v}",
        "bad card": "reference {v} ¦ order={v} ¦ Meter {v} was read.",
        "bad iban": "no such account: {v}",
        "order": "Booking {v} is confirmed ¦ barcode {v}",
        "image": "<link rel=icon href='{v}'>",
        "integrity": "resolved with {v}",
        "nanoseconds": "span {v} closed",
        "version": "Release {v} ¦ jwt-token {v} is out ¦ FROM python:{v}",
        "number": (
            "tokens: {v} ¦ token budget = {v} ¦ secret number: {v} ¦ password attempts: {v} ¦ {v} tokens per second"
        ),
        "word": (
            "Your password must not contain {v}. ¦ password: ******** ¦ let password = prompt('{v}') ¦ "
            "password = input('Password: ') ¦ the secret of {v} is patience ¦ a token of {v} ¦ token: {v} ¦ "
            "she kept the {v} password to herself ¦ password reset link for {v} ¦ key: {v} ¦ PASSWORD=$1 # {v} ¦ "
            "What is the password? asked {v} ¦ credentials: see {v} ¦ passport: {v} ¦ Bearer of the {v} ring"
        ),
        "identifier": (
            "api_key=os.environ.get('{v}') ¦ user.password = {v} ¦ return token.{v} ¦ secret={v}.read() ¦ "
            "password: process.env.{v}, ¦ ${{{{ secrets.{v} }}}} ¦ auth_token = load_{v}()"
        ),
        "name": "Token ring, said {v}. ¦ {v} is the key person ¦ Secretary: {v} ¦ password manager of {v}",
        "path": "api key in {v}.env ¦ password file: {v} ¦ https://{v}/token?x=1",
        "slug": "token={v} ¦ password: your-{v}",
        "video": "clip {v} has sound",
        "public key": "known_hosts: {v}",
        "certificate": "ca:\n{v}",
        "tracking": "parcel: {v}",
        "address": "dns {v}",
        "day": "token expires: {v} ¦ password set on {v} ¦ pin changed {v}",
    }
)
