"""Cache policies and what they are worth: simulator, capacity, break-even. Pure: the store runs the same policies."""
