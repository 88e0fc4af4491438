"""One module for each toolkit that is compared; it runs under the Python that has that toolkit."""
