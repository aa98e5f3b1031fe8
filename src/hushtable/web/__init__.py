"""The workbench of a custodian and the page of an analyst, in a browser: thin over the library."""
