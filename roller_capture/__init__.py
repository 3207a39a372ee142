"""roller-capture: who called the model, with what, and what came back."""

__version__ = "0.1.0"
