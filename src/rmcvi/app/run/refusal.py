"""A wrong call."""


class Refusal(ValueError):
    """One sentence that says what came and what was expected; the command ends with status 2."""
