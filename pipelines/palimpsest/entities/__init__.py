"""Names and topics of memories, resolved inside each scope."""
