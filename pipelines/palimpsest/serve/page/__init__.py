"""The page for people: files that the service sends to a browser, and the routes that send them."""
