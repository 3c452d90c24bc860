"""Models: their permitted addresses, the asks sent to them, and the parsing of their replies."""
