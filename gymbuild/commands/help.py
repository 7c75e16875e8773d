"""`help`, and `gymbuild --help`: what gymbuild is, how its command line reads, and the commands that there are."""

from __future__ import annotations

from typing import Any

from doit.cmd_help import Help as DoitHelp

_USAGE = """\
gymbuild: make for LLM benchmarks

  {name} [TASK ...] [SETTING=VALUE ...]    make tasks current; without a task, the default ones (every plan)
  {name} prepare:aime24                    one dataset
  {name} -n 4 plan                         every plan, four tasks at a time

The command line is doit's (https://pydoit.org). `gymbuild --root DIR ...` works on any checkout.

Commands"""


class Help(DoitHelp):  # type: ignore[misc]
    """Show help."""

    name = "help"

    def print_usage(self, cmds: Any) -> None:
        """Print what there is.

        Args:
            cmds: the commands by name.
        """
        print(_USAGE.format(name=self.bin_name))
        for name in sorted(cmds):
            print(f"  {self.bin_name} {name:16}  {cmds[name].doc_purpose}")
        print(f"\n  {self.bin_name} help COMMAND          how a command is used")
