"""The one error that is the user's to solve: its text is all that the command line shows."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right. The command line prints the text and exits with 2.

    The text is one short statement of what is wrong and, where there is one, the way out.
    """
