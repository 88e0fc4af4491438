"""Health of a home over time: growth, ages, confidence, contradictions, orphans, use, cost and time, size per user."""
