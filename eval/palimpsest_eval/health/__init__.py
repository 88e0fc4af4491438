"""Health of a home over time: growth, ages, confidence, disputes, orphans, use, cost and time, size per user."""
