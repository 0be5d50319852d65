"""A small playbook tree for the test's sshd: the product's own step.yml with roles that only write files."""

from pathlib import Path

from kvctl.types.resources import resource

_ROLES = {
    "demo": {
        "precheck": "- name: Look\n  ansible.builtin.assert:\n    that: kvctl_args.path is defined\n",
        "apply": """\
- name: Linger
  ansible.builtin.command: sleep {{ kvctl_args.sleep }}
  changed_when: false
  when: kvctl_args.sleep is defined
- name: Wait while a file is there
  ansible.builtin.shell: "while [ -e {{ kvctl_args.while_exists }} ]; do sleep 0.1; done"
  changed_when: false
  when: kvctl_args.while_exists is defined
- name: Refuse
  ansible.builtin.fail:
    msg: the drive is on fire
  when: kvctl_args.fail | default(false)
- name: Write
  ansible.builtin.copy:
    content: "{{ kvctl_args.content }}"
    dest: "{{ kvctl_args.path }}"
    mode: "0600"
""",
        "verify": "- name: Look again\n  ansible.builtin.stat:\n    path: '{{ kvctl_args.path }}'\n",
    },
    "stray": {
        "precheck": "[]\n",
        "apply": "- name: Other\n  ansible.builtin.include_role:\n    name: demo\n    tasks_from: apply\n",
        "verify": "[]\n",
    },
}

_CONVERGE = """\
- name: Converge
  hosts: all
  gather_facts: false
  tasks:
    - name: Demo
      ansible.builtin.include_role:
        name: demo
        tasks_from: apply
      vars:
        kvctl_args: "{{ kvctl_desired.demo }}"
"""


def playbooks(directory: Path) -> Path:
    """Write the tree and return it."""
    root = directory / "playbooks"
    for role, files in _ROLES.items():
        tasks = root / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        for name, text in files.items():
            (tasks / f"{name}.yml").write_text(f"---\n{text}")
    (root / "step.yml").write_text((resource("playbooks") / "step.yml").read_text())
    (root / "converge.yml").write_text(f"---\n{_CONVERGE}")
    return root
