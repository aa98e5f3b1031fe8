"""One file per attack; what each reports is in ``outcome``."""
