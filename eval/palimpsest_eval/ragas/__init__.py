"""Contexts judged by RAGAS, with and without a language model."""
