"""What the sentences of memories state, and which UPDATEs their words prove."""
