"""Pages in HTML, and books made of them."""
