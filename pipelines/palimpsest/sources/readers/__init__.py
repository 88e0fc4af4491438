"""One file into documents: `read_source` chooses a reader by the bytes and the suffix of the file.

| folder | reads |
|---|---|
| `text_files` | plain text, reStructuredText, AsciiDoc, Markdown, CSV |
| `web` | HTML, EPUB |
| `office` | DOCX, PPTX, XLSX |
| `pdf` | PDF |
| `mail` | EML and Outlook's MSG, with their attachments |
| `conversations` | JSON lines, chat exports in JSON, WebVTT and SRT |
| `common` | what several of them share |
"""
