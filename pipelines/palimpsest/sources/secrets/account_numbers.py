"""Card and bank numbers: found by their shape, and only where their check digits are valid."""

import re

_CARD = re.compile(r"(?<![\w.+/-])\d(?:[ -]?\d){12,18}(?![\w/=]|[.-]\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9+/=_])")
_ROUTING = re.compile(r"\b(?:routing|aba|rtn)\b[^\d\n]{0,20}(\d{9})(?!\d)", re.IGNORECASE)
_GROUPS = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (4, 4, 4, 1), (6, 13), (8, 8)}
# Length of an IBAN by country, as the registry of ISO 13616 lists them.
_IBAN_LENGTH = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD FK",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def find_numbers(text: str) -> list[tuple[int, int, str]]:
    """Returns (start, end, kind) of card numbers, IBANs and US routing numbers with valid check digits, by start."""
    found = [(m.start(), m.end(), "card number") for m in _CARD.finditer(text) if _is_card(m[0])]
    for m in _IBAN.finditer(text):
        if end := _iban_end(m[0]):
            found.append((m.start(), m.start() + end, "bank account number"))
    found += [(m.start(1), m.end(1), "bank routing number") for m in _ROUTING.finditer(text) if _is_routing(m[1])]
    return sorted(found)


def _is_card(written: str) -> bool:
    groups = tuple(len(g) for g in re.split("[ -]", written))
    if len(groups) > 1 and (groups not in _GROUPS or (" " in written and "-" in written)):
        return False
    digits = re.sub("[ -]", "", written)
    return _has_issuer(digits) and len(set(digits)) > 2 and is_luhn_valid(digits)


def _has_issuer(digits: str) -> bool:
    """Returns whether the first digits are those of a card network, and the length one that it uses."""
    n, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    return (
        (digits[0] == "4" and n in (13, 16, 19))
        or (n == 16 and (51 <= two <= 55 or 2221 <= four <= 2720))
        or (n == 15 and two in (34, 37))
        or (n == 14 and (300 <= three <= 305 or two in (36, 38)))
        or (n in (16, 19) and (four == 6011 or 644 <= three <= 649 or two in (62, 65)))
        or (n == 16 and 3528 <= four <= 3589)
    )


def is_luhn_valid(digits: str) -> bool:
    """Returns whether the last digit is the check digit of ISO/IEC 7812 (Luhn)."""
    total = 0
    for i, digit in enumerate(map(int, reversed(digits))):
        total += digit if i % 2 == 0 else sum(divmod(2 * digit, 10))
    return total % 10 == 0


def _iban_end(written: str) -> int:
    """Returns where the IBAN at the start of `written` ends; 0 where its check digits (ISO 7064, mod 97) are wrong."""
    length, seen = _IBAN_LENGTH.get(written[:2], 0), 0
    for end, character in enumerate(written, 1):
        seen += character.isalnum()
        if seen == length:
            compact = re.sub("[ -]", "", written[:end])
            number = "".join(str(int(c, 36)) for c in compact[4:] + compact[:4])
            whole = end == len(written) or written[end] in " -"
            return end if whole and int(number) % 97 == 1 else 0
    return 0


def _is_routing(digits: str) -> bool:
    weights = (3, 7, 1) * 3
    return digits != "0" * 9 and sum(w * int(d) for w, d in zip(weights, digits, strict=True)) % 10 == 0
