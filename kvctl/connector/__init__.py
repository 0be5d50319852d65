"""What runs beside the engine: names, keys, sealing, the client. The store shares its wire and capability modules."""
