"""Web interface: the custodian's workbench and the release explorer."""
