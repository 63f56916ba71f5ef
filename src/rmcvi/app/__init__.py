"""For people with a stream and no wish to write Python: sources, runs, reports, the command."""
