"""Text analysis that all other folders share; nothing here reads a table.

- words: `stopwords` (every list), `normalize` (folding), `words` (content words), `terms` (search terms), `phrases`
  (of topics), `name_keys` (names in queries), `referents` (what a pronoun refers to);
- sentences: `sentences`; tokens: `tokenizer`;
- dates: `dates` (a value that is a date), `written_dates` (full dates in a name or title), `date_mentions` (dates with
  their year in running text), `relative_dates` and `parts_of_year` (dates that need a reference day), on
  `calendar_spans`; `periods` (numbers in years), `memory_periods` (what memories state), `question_time` (what a
  question asks).
"""
