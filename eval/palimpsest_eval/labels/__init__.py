"""Figures of labels: the label gate, the register, aliases, tuning."""
