"""What a memory states, clause by clause: subject, slot, value, time, condition, polarity and modality."""
