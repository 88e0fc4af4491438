"""The types of a memory."""

MEMORY_TYPES = ("episodic", "semantic", "document", "summary", "preference", "inference", "task")
TASK = "task"
