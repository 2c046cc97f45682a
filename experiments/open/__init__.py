"""What the papers leave out: questions of their methods that no table of theirs answers."""
