"""Labels of pairs: rules, two trained encoders, a language model."""
