from palimpsest.store.tables import _OWN, SCHEMAS, description


def test_every_column_of_every_table_is_described_in_one_sentence():
    for table, columns in SCHEMAS.items():
        missing = [c for c in columns if not description(table, c)]
        assert not missing, f"{table}: describe {', '.join(missing)} in palimpsest/store/columns.py"
        assert all(description(table, c).endswith(".") for c in columns)


def test_nothing_is_described_that_is_not_there():
    assert {(t, c) for t, own in _OWN.items() for c in own} <= {(t, c) for t in SCHEMAS for c in SCHEMAS[t]}
