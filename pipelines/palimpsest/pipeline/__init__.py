"""Builds: what a stage is, which stages a change needs, and the deletes that rewrite builds."""
