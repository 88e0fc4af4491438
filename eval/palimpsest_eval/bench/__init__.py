"""Scale runs with made data: latency, load, memory, deletes."""
