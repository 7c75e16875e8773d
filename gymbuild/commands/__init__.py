"""doit command plugins, one per file; a checkout registers them in its pyproject.toml."""

from __future__ import annotations

COMMANDS = {
    "run": "gymbuild.commands.run:Run",
    "list": "gymbuild.commands.list:List",
    "info": "gymbuild.commands.info:Info",
    "dumpdb": "gymbuild.commands.dumpdb:DumpDB",
    "forget": "gymbuild.commands.forget:Forget",
    "why": "gymbuild.commands.why:Why",
    "inputs": "gymbuild.commands.inputs:Inputs",
    "benchmarks": "gymbuild.commands.benchmarks:Benchmarks",
    "schema": "gymbuild.commands.schema:Schema",
    "cache": "gymbuild.commands.cache:Cache",
}
"""Where each command is: its name, and `module:class`."""
