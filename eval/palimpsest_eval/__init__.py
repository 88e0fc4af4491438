"""Measuring retrieval: suites, metrics, latency, gate."""
