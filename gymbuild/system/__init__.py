"""What everything stands on: errors, paths, files, locks, the clock, processes, git and text."""
