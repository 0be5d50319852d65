"""How a client reaches each contestant. Everything else of a client is the same for all."""
