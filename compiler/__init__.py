"""The compiler contains the IR, the frontend, passes, derivatives and sizing. It imports numpy only."""
