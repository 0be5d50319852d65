"""kvstored: keeps sealed chunks that it cannot read, gives them back fast, and forgets them when told."""
