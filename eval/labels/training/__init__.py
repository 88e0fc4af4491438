"""How the offline labeler that comes with Palimpsest is trained: pairs, the pair encoder, the trees on top."""
