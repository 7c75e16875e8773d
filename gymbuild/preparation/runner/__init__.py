"""The script's side: what runs in a benchmark's environment. Python 3.9 or newer, standard library only."""
