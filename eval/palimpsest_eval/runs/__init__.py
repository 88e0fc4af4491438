"""Whole evaluations: a suite, a build, an ablation."""
