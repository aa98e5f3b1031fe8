"""The custodian's side: what a release is worth and gives away, and whether promises hold."""
