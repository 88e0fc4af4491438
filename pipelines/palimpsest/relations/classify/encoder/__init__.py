"""Chooser and judge: transformers that read a statement together with older ones, and their calibration."""
