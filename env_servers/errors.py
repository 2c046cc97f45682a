"""The one exception that is meant for the person at the keyboard."""


class UserError(Exception):
    """Something the user can put right: its text is one line that says what is wrong, where, and what to do."""
