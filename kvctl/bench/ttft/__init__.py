"""Time to the first token and between tokens of a real engine with kvctl's tier, over real stores."""
