"""Equations of Word become a line that people and word search can read."""

import docx
import pytest
from lxml import etree

from palimpsest.sources.readers.office import format_equation
from tests.sources.hostile import saved

M = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def r(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def math(inner: str):
    return etree.fromstring(f'<m:oMath xmlns:m="{M}">{inner}</m:oMath>')


SQUARED = f"<m:sSup><m:e>{r('b')}</m:e><m:sup>{r('2')}</m:sup></m:sSup>"


@pytest.mark.parametrize(
    ("inner", "line"),
    [
        (r("A=π") + SQUARED, "A=π b^2"),
        (
            r("x=") + f"<m:f><m:num>{r('-b±')}<m:rad><m:deg/><m:e>{SQUARED}{r('-4ac')}</m:e></m:rad></m:num>"
            f"<m:den>{r('2a')}</m:den></m:f>",
            "x=(-b±√(b^2-4ac))/2a",
        ),
        (f"<m:f><m:fPr><m:type m:val='noBar'/></m:fPr><m:num>{r('n')}</m:num><m:den>{r('k')}</m:den></m:f>", "n¦k"),
        (
            f"<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{r('n=1')}</m:sub><m:sup>{r('∞')}</m:sup>"
            f"<m:e>{r('n')}</m:e></m:nary>",
            "∑_(n=1)^∞ n",
        ),
        (f"<m:nary><m:sub/><m:sup/><m:e>{r('x')}</m:e></m:nary>" + r("dx"), "∫ x dx"),
        (f"<m:d><m:e>{r('a')}</m:e><m:e>{r('b')}</m:e></m:d>", "(a|b)"),
        (f"<m:sSup><m:e><m:d><m:e>{r('a+b')}</m:e></m:d></m:e><m:sup>{r('n')}</m:sup></m:sSup>", "(a+b)^n"),
        (SQUARED + SQUARED, "b^2 b^2"),
        (f"<m:rad><m:deg>{r('3')}</m:deg><m:e>{r('x')}</m:e></m:rad>", "3√x"),
        (f"<m:func><m:fName>{r('sin')}</m:fName><m:e>{r('θ')}</m:e></m:func>", "sin θ"),
        (f"<m:limLow><m:e>{r('lim')}</m:e><m:lim>{r('n→∞')}</m:lim></m:limLow>", "lim_(n→∞)"),
        (f"<m:m><m:mr><m:e>{r('1')}</m:e><m:e>{r('2')}</m:e></m:mr><m:mr><m:e>{r('3')}</m:e></m:mr></m:m>", "1, 2; 3"),
        (f"<m:unheard>{r('kept')}</m:unheard>", "kept"),
    ],
)
def test_an_equation_is_a_line(inner: str, line: str) -> None:
    assert format_equation(math(inner)) == line


def test_an_equation_is_in_its_paragraph_and_one_nested_without_end_keeps_its_letters(read) -> None:
    assert format_equation(math("<m:e>" * 200 + r("deep") + "</m:e>" * 200)) == "deep"
    made = docx.Document()
    paragraph = made.add_paragraph("The area is ")
    paragraph._p.append(math(r("A=π") + SQUARED))
    paragraph.add_run(", as always.")
    assert read("a.docx", saved(made)).documents[0].text == "The area is A=π b^2, as always."
