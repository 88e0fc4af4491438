"""Batches that other processes compute: what a batch is, and Ray as the engine that runs them."""
