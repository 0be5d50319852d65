"""Lab hosts: a small appliance on one Linux machine, for a newcomer, for CI and for demonstrations.

Real: systemd, sshd, network interfaces, file systems on loop drives. Simulated: what no container has, see `hardware`.
"""
