"""The controller's half of installing kvnoded: builds the archive, and copies it only to a node that lacks it."""

from __future__ import annotations

import hashlib
import tempfile
from typing import Any

from ansible.plugins.action import ActionBase
from kvctl.fleet.node.bundle import zip_bytes


class ActionModule(ActionBase):
    supports_check_mode = True
    supports_diff = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        archive = zip_bytes()
        arguments = {**self._task.args, "sha256": hashlib.sha256(archive).hexdigest()}
        result: dict[str, Any] = self._execute_module(
            module_name="kvctl_node", module_args=arguments, task_vars=task_vars
        )
        if not result.get("needs_archive") or result.get("failed"):
            return result
        remote = self._connection._shell.join_path(self._make_tmp_path(), "kvnoded.pyz")
        with tempfile.NamedTemporaryFile() as local:
            local.write(archive)
            local.flush()
            self._transfer_file(local.name, remote)
        installed: dict[str, Any] = self._execute_module(
            module_name="kvctl_node", module_args={**arguments, "archive": remote}, task_vars=task_vars
        )
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return installed
