"""Define what every kernel means, by an interpreter that uses NumPy alone; it is exact, checked and deterministic."""
