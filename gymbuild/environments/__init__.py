"""The isolated environments that prepare scripts run in: which one, its key, and building it through uv."""
