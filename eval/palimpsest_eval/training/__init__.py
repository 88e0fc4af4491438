"""How the offline labeler that comes with Palimpsest is trained: worlds and pairs, chooser, judge, calibration."""
