"""XML of files by others: no entities, no network."""

from typing import Any


def parse_xml(data: bytes, *, recover: bool = False) -> Any:
    """Returns the root element, an lxml tree; with `recover` what is readable of a damaged one, or None.

    Raises:
        lxml.etree.XMLSyntaxError: no XML, without `recover`.
    """
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, recover=recover))
