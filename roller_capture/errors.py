"""The one exception that carries a message for the user: one clear line and an exit code."""


class RollerError(Exception):
    """Bad input or a refused operation.

    The message names the file, what is wrong and what to do. `exit_code` is 1 when the data is not good and 2 when the
    call is wrong (design: exit codes).
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
