"""Text analysis that all other folders share; nothing here reads a table.

- words: `stopwords` (every list), `normalize` (folding), `words` (content words), `terms` (search terms), `phrases`
  (of topics), `name_keys` (names in queries), `referents` (what a pronoun refers to);
- sentences: `sentences`; tokens: `tokenizer`;
- dates in running text, one module for each form: `date_mentions` (with a year: `in May 2026`), `relative_dates` (from
  a reference day: `yesterday`, `two weeks ago`; and months without a year: `last March`, `mid May`, `3 May`),
  `parts_of_year` (quarters, halves, seasons: `Q2`, `in summer`), all on `calendar_spans`;
- other dates: `dates` (a value that is a date), `written_dates` (full dates in a file name or title);
- periods: `periods` (numbers in years), `memory_periods` (what memories state), `question_time` (which of the dates of
  a question is its period, and which its `as of` day; finds no form itself).
"""
