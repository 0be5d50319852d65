"""The modules' code is imported as Ansible imports it: from ansible.module_utils."""

from kvctl.fleet.node import roles

roles.extend()
