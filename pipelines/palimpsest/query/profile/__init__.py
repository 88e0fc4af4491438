"""What is known of a user, with citations, read without a search."""
