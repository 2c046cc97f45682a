"""GUI-Owl-1.5 (Mobile-Agent-v3.5, arXiv 2602.16855): a file for each table or figure."""
