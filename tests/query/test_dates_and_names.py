"""Arguments of a search that no build can answer are errors with the fix."""

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.search_request import parse_datetime
from palimpsest.query.request.types import CollectionInfo, Scope
from palimpsest.query.scope.resolve_scopes import check_names


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_cannot_have_is_an_error_of_its_argument(text):
    with pytest.raises(ArgumentError, match="outside the years 1 to 9999 in UTC; write a date within them"):
        parse_datetime("as_of", text, end_of_day=True)


def test_names_that_select_scopes_must_be_known():
    collections = {name: CollectionInfo(name, user_id="ana") for name in ("a", "b")}
    scopes = [Scope("a", "ben"), Scope("b", "eva", "p")]
    for collection, user in ((None, None), ("a", None), (None, "eva"), ("a", "ben"), ("b", "ana")):
        check_names(collections, scopes, collection, user)
    with pytest.raises(ArgumentError, match="collection='c': not in this build; it has: a, b"):
        check_names(collections, scopes, "c", None)
    with pytest.raises(ArgumentError, match="user='eva': not in collection a; it has: ana, ben"):
        check_names(collections, scopes, "a", "eva")
    with pytest.raises(ArgumentError, match="user='zoe': not in this build; it has: ana, ben, eva"):
        check_names(collections, scopes, None, "zoe")
