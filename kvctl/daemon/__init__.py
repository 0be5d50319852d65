"""What daemons have in common: their log, systemd, configuration, sockets and metrics. Nothing of what one serves."""
