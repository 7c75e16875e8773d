"""One dataset: its script is run, what it used is recorded, and what failed is put back."""
