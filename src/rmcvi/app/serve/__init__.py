"""A run as a service: rows come from a broker or by HTTP, and go out to a page and to machines."""
