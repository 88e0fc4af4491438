"""What was sent and is not built yet, formed in memory as the next build forms it, and searched with what is built."""
