"""Oracles: second opinions on values and derivatives, which share no rule with what they judge."""
