"""One file of every format, made here: sentences that name their place, with letters of several bytes among them."""

import io
import json
from email.message import EmailMessage
from functools import cache

import docx
import openpyxl
import pptx
from reportlab.pdfgen.canvas import Canvas

from palimpsest.core.ids import JsonObject
from tests.sources.hostile import saved, zipped
from tests.sources.outlook_file import msg

SECTIONS, PARAGRAPHS = 6, 8


def sentences(format_: str, section: int, paragraph: int) -> str:
    return (
        f"Paragraph {paragraph} of section {section} of the {format_} was written by Zoë in Łódź \U0001f986. "
        f"It costs {section * 100 + paragraph} €, e\u0301 included! Was it agreed? Dr. Byrne said no. See §{section}."
    )


def outline(format_: str) -> list[tuple[str, list[str]]]:
    return [
        (f"Section {s} of {format_}", [sentences(format_, s, p) for p in range(PARAGRAPHS)]) for s in range(SECTIONS)
    ]


def pdf() -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, invariant=True)
    for heading, paragraphs in outline("PDF"):
        y = 800
        for text in (heading, *paragraphs):
            for start in range(0, len(text), 70):
                line = text[start : start + 70].encode("latin-1", "replace").decode("latin-1")
                canvas.drawString(50, y := y - 14, line)
            y -= 14
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def word() -> bytes:
    made = docx.Document()
    for heading, paragraphs in outline("DOCX"):
        made.add_heading(heading, 1)
        for text in paragraphs:
            made.add_paragraph(text)
        table = made.add_table(2, 2)
        for i, text in enumerate(("Name", "Cost", "Zoë", "7 €")):
            table.cell(i // 2, i % 2).text = text
    return saved(made)


def slides() -> bytes:
    deck = pptx.Presentation()
    for heading, paragraphs in outline("PPTX"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = heading
        slide.placeholders[1].text = "\n".join(paragraphs)
        slide.notes_slide.notes_text_frame.text = "Zoë says it slowly."
    return saved(deck)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for heading, paragraphs in outline("XLSX"):
        sheet = book.create_sheet(heading)
        sheet.append(["number", "text", "cost"])
        for number, text in enumerate(paragraphs):
            sheet.append([number, text, number / 4])
    return saved(book)


def page() -> str:
    parts = (f"<h2>{h}</h2>" + "".join(f"<p>{p}</p>" for p in ps) for h, ps in outline("HTML"))
    return "<html><head><meta charset='utf-8'><title>T</title></head><body>" + "".join(parts) + "</body></html>"


def message() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Zoë <zoe@example.org>", "bo@example.org", "Plans of Łódź"
    mail["Date"] = "Tue, 05 Mar 2024 10:00:00 +0100"
    mail.set_content("\n\n".join(p for _, ps in outline("e-mail") for p in ps) + "\n\n> Quoted of old.\n")
    mail.add_attachment("\n\n".join(p for _, ps in outline("attachment") for p in ps), filename="notes.txt")
    return mail.as_bytes()


def book() -> bytes:
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    names = [f"p{i}" for i in range(SECTIONS)]
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in names)
    spine = "".join(f'<itemref idref="{n}"/>' for n in names)
    parts = {
        f"{n}.xhtml": f"<html><body><h1>{h}</h1>{''.join(f'<p>{p}</p>' for p in ps)}</body></html>"
        for n, (h, ps) in zip(names, outline("EPUB"), strict=True)
    }
    opf = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    return zipped({"META-INF/container.xml": container, "c.opf": opf, **parts})


def captions() -> str:
    texts = [p for _, ps in outline("WebVTT") for p in ps]
    cues = (f"00:{i:02}:00.000 --> 00:{i:02}:30.000\n<v Zoë>{text}" for i, text in enumerate(texts))
    return "WEBVTT\n\n" + "\n\n".join(cues) + "\n"


def turns() -> str:
    rows = (
        {"session_id": h, "user_id": "zoe", "speaker": "Zoë", "text": p, "timestamp": f"2024-03-0{i + 1}T10:00:00Z"}
        for i, (h, ps) in enumerate(outline("JSONL"))
        for p in ps
    )
    return "\n".join(map(json.dumps, rows))


def export() -> str:
    talks = [{"title": h, "messages": [{"role": "user", "content": p} for p in ps]} for h, ps in outline("export")]
    return json.dumps(talks)


def chatgpt() -> str:
    """An export of ChatGPT: each paragraph a message with a picture."""
    talks = []
    for heading, paragraphs in outline("ChatGPT"):
        nodes: JsonObject = {}
        parent = None
        for number, text in enumerate(paragraphs):
            author = {"role": "user" if number % 2 else "assistant"}
            content = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, text]}
            nodes[str(number)] = {"parent": parent, "message": {"author": author, "content": content}}
            parent = str(number)
        talks.append({"title": heading, "mapping": nodes, "current_node": parent})
    return json.dumps(talks, ensure_ascii=False)


def claude() -> str:
    """An export of Claude: each paragraph a message, and all of them once more as an attached text."""
    talks = []
    for heading, paragraphs in outline("Claude"):
        messages: list[JsonObject] = [
            {"sender": "human", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": p}]}
            for p in paragraphs
        ]
        messages[0]["attachments"] = [{"file_name": "all.txt", "extracted_content": "\r\n\r\n".join(paragraphs)}]
        talks.append({"uuid": heading, "name": heading, "chat_messages": messages})
    return json.dumps(talks, ensure_ascii=False)


@cache
def samples() -> dict[str, bytes]:
    """Returns name -> bytes, a file for each format that can be read."""
    markdown = "\n\n".join(f"## {h}\n\n" + "\n\n".join(ps) for h, ps in outline("Markdown"))
    text = "\r\n\r\n".join(f"{h}\r\n\r\n" + "\r\n\r\n".join(ps) for h, ps in outline("text"))
    rows = "\n".join(f'{n},"{p}"' for _, ps in outline("CSV") for n, p in enumerate(ps))
    suite = "\n".join(
        json.dumps({"_id": f"{h}{i}", "title": h, "text": p}) for h, ps in outline("suite") for i, p in enumerate(ps)
    )
    found: dict[str, bytes | str] = {
        "a.md": f"---\ntitle: Zoë\n---\n{markdown}\n\n```\ncode = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a.txt": text, "utf16.txt": text.encode("utf-16"), "a.html": page(), "a.csv": "number,text\n" + rows,
        "a.jsonl": turns(), "suite.jsonl": suite, "a.json": export(), "chatgpt.json": chatgpt(),
        "claude.json": claude(), "a.eml": message(),
        "a.mbox": b"From zoe@example.org Mon Mar  2 10:00:00 2026\n" + message(),
        "a.msg": msg("Outlook", "\n\n".join(p for _, ps in outline("Outlook") for p in ps), "mara@example.org"),
        "a.vtt": captions(), "a.pdf": pdf(), "a.docx": word(), "a.pptx": slides(), "a.xlsx": workbook(),
        "a.epub": book(),
    }  # fmt: skip
    return {name: data.encode() if isinstance(data, str) else data for name, data in found.items()}
