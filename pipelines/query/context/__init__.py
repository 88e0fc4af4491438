"""What is packed into a context beside the best memories."""
