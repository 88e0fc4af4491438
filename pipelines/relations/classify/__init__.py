"""Labels of pairs: rules, a small trained model, a language model."""
