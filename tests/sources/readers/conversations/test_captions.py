"""WebVTT."""


def test_captions_are_turns_with_their_speakers(read) -> None:
    (document,) = read(
        "talk.vtt",
        "WEBVTT\n\nNOTE not words\n\n1\n00:11.000 --> 00:13.500 align:right\n<v.loud Roger Bingham>We are in <i>New"
        " York</i>\nCity &amp; here\n\n01:00:16.250 --> 01:00:18.000\n<v Neil>Hi<v Roger>Hello\n",
    ).documents
    assert document.text == "Roger Bingham: We are in New York City & here\nNeil: Hi\nRoger: Hello"
    assert [(s.speaker, s.kind) for s in document.segments] == [
        ("Roger Bingham", "turn"),
        ("Neil", "turn"),
        ("Roger", "turn"),
    ]
    assert document.metadata["starts"] == [11.0, 3616.25, 3616.25]
    assert document.metadata["duration_seconds"] == 3618.0
