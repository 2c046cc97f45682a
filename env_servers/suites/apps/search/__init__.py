"""Search: a search engine, the pages that it finds, and long booking forms."""
