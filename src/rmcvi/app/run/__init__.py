"""A run: its plan, its directory, the loop that learns, and its scores."""
