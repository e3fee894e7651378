"""The compiler: IR, frontend, passes, reverse mode and sizing. Imports numpy only."""
