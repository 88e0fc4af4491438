"""Names: found in each text, and resolved inside each scope with a reason for every merge.

The steps, in order:

1. `find_names` finds capitalised n-grams, acronyms and codes in one text, each with its `context_cues`;
   `spacy_names` adds those of a library where a collection asks for it. `lexicon` has words that show what a name can
   be, such as `corporation`; it lists no first names.
2. `stated_names` and `acronyms` find where the text itself says that two names are one, or who holds an office.
   The result of both steps, a list of `MentionCandidate`, depends on one text alone and is kept for the next build.
3. `titles` adds titles of documents and where other texts mention them; `people` adds speakers and metadata.
4. `scope_evidence` collects what resolution of one scope depends on: a `ScopeEvidence` (`name_model`).
5. `resolve_names` applies a person's decisions, then `merge_rules` (what texts state, and spelling), then `short_forms`
   (first names, surnames, initials, first names cut short: Sam for Samuel Vale); each yields a `Merge` with its reason,
   and `clusters` joins them. The result is a `Resolution`.
6. `assign_names` gives each mention the name that it refers to, and keeps the longest of mentions that overlap.
"""
