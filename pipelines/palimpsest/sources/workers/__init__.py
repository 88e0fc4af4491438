"""Reads sources in processes of bounded time and memory."""
