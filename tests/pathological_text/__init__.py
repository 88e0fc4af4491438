"""How long regular expressions, and the functions that apply them, take on texts made to be slow for them."""
