"""doit command plugins, one per file; a checkout registers them in its pyproject.toml."""

from __future__ import annotations

COMMANDS = {
    "run": "gymbuild.commands.run:Run",
    "help": "gymbuild.commands.help:Help",
    "list": "gymbuild.commands.list:List",
    "info": "gymbuild.commands.info:Info",
    "dumpdb": "gymbuild.commands.dumpdb:DumpDB",
    "forget": "gymbuild.commands.forget:Forget",
    "why": "gymbuild.commands.why:Why",
    "inputs": "gymbuild.commands.inputs:Inputs",
    "benchmarks": "gymbuild.commands.benchmarks:Benchmarks",
    "eval-config": "gymbuild.commands.eval_config:EvalConfig",
    "check-split": "gymbuild.commands.check_split:CheckSplit",
    "schema": "gymbuild.commands.schema:Schema",
    "cache": "gymbuild.commands.cache:Cache",
    "diff": "gymbuild.commands.diff:Diff",
    "check": "gymbuild.commands.check:Check",
    "shard": "gymbuild.commands.shard:Shard",
    "merge": "gymbuild.commands.merge:Merge",
    "rows": "gymbuild.commands.rows:Rows",
}
"""Where each command is: its name, and `module:class`."""
