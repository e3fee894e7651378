"""This package contains oracles: independent judges of values and derivatives that share no rule with the compiler."""
