"""Textbook NumPy, written to be read: what the package is compared with."""
