"""E-mail and its attachments."""
