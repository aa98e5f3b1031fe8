"""What a release gives away: anonymity of rows, and one file per attack."""
