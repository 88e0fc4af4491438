"""How likely a result is evidence: the model's training and figures."""
