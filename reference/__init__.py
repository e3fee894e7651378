"""The reference: what every kernel means, executed with NumPy alone. Exact, checked, deterministic."""
