"""Short texts that are repeated to make long ones: what many patterns begin or end with, and sentences."""

UNITS = (
    *(
        " ", "\t", "\n", " \n", "\n ", "\r\n", "\u00a0", "A", "a", "1", ".", "-", "_", "*", "=", "#", "|", "/", "\\",
        "@",
    ),
    *(
        ":", ",", "!", "?", ">", "<", "&", '"', "'", "\u2019", "(", ")", "[", "]", "{", "`", "\u2014", "\u3002",
        "\u00e9",
    ),
    *(
        "A ", "a ", "1 ", "A\n", "a\n", "A-", "a-", "-1", "ab-", "A.", "a.", "1.", "1,", "1-", "1:", "1/", "A1", "a1",
        "aA",
    ),
    *(
        "((", "()", "( ", "<a ", "<a>", "</", "&a", "&#", "[]", "[a](", "](", "![", '"a', '" ', "a, ", "a_", "A&",
        "A, ", ". ",
    ),
    *(
        "A. ", "I ", "the ", "The ", "the A ", "A the ", "A of ", "a and ", "is ", "not ", "-- ", "> ", ">> ", "> > ",
        "* ",
    ),
    *(
        "1. ", "2020-", "2020 ", "1 May ", "1 May 2020 ", "May ", "00:00", "00:00:00.000 --> ", "a@b", "a@b.c ",
        "http://a",
    ),
    *(
        "key: ", "key=", "a:\n", "---\n", "```\n", "| a ", "- a\n", "# a\n", "<!--", "<p>", "a\n\n", "\n\n", "A\n\n",
        "x" * 70 + "\n",
    ),
    *("I fixed it. ", "Why is it so? ", "It broke. ", "I want it, no ", "We decided, and ", "Remember that it is so. "),
)  # fmt: skip
