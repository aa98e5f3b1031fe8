"""Files: written whole, scratch that is the owner's alone, YAML, what this machine can hold."""
