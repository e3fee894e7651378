"""The compiler contains the IR, the frontend, passes, derivatives and sizing. It imports no package but numpy."""
