"""The command line of Kopf: `python -m kopf run` starts `setpoint run --python`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Optional

from setpoint.kopf._binary import NoBinary, address_arguments, find_binary
from setpoint.kopf._version import __version__

_NO_PEERING = (
    "there is no peering: a Lease elects the replica that works. To stop an operator, scale its Deployment to 0; "
    "to leave one object as it is, annotate it with setpoint.dev/paused=true"
)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command of Kopf; the result is the exit code."""
    options, _ = _parser().parse_known_args(arguments) if _is_peering(arguments) else (_parser().parse_args(arguments), None)
    if options.command in ("freeze", "resume"):
        return _fail(f"kopf {options.command}: {_NO_PEERING}")
    if not options.paths and not options.modules:
        return _fail("kopf run: name the files of the operator, or a module with -m")
    try:
        command = [find_binary(), *setpoint_arguments(options)]
    except NoBinary as error:
        return _fail(str(error))
    _set_environment(options)
    _execute(command)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of `kopf run`; SystemExit if they are wrong or of another command."""
    if _is_peering(arguments):
        sys.exit(_fail(f"kopf {arguments[0]}: {_NO_PEERING}"))
    return _parser().parse_args(arguments)


def _is_peering(arguments: Optional[Sequence[str]]) -> bool:
    given = sys.argv[1:] if arguments is None else arguments
    return bool(given) and given[0] in ("freeze", "resume")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kopf", description="Kopf's command line, run by Setpoint", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"kopf {__version__}, run by Setpoint")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an operator", allow_abbrev=False)
    for short, name in (("-v", "verbose"), ("-d", "debug"), ("-q", "quiet")):
        run.add_argument(short, f"--{name}", action="store_true", default=_is_set(name))
    run.add_argument("--log-format", type=str.lower, choices=["full", "plain", "json"], default=_variable("log_format"))
    run.add_argument("--log-refkey", default=_variable("log_refkey"))
    run.add_argument("--log-prefix", action=argparse.BooleanOptionalAction)
    run.add_argument("-A", "--all-namespaces", action="store_true", default=_is_set("clusterwide"))
    run.add_argument("-n", "--namespace", action="append", dest="namespaces", default=_list("namespace"))
    run.add_argument("--standalone", action="store_true", default=_is_set("standalone"))
    run.add_argument("--dev", action="store_true", default=_is_set("dev"))
    run.add_argument("-L", "--liveness", default=_variable("liveness_endpoint"))
    run.add_argument("-P", "--peering", default=_variable("peering"))
    run.add_argument("-p", "--priority", type=int, default=_variable("priority"))
    run.add_argument("-m", "--module", action="append", dest="modules", default=_list("modules"))
    run.add_argument("paths", nargs="*")
    for name in ("freeze", "resume"):
        commands.add_parser(name, help="not supported: there is no peering", allow_abbrev=False)
    return parser


def setpoint_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of `setpoint` for those of `kopf run`."""
    arguments = ["run", "--python-interpreter", sys.executable]
    for name in ("verbose", "debug", "quiet", "all_namespaces", "standalone", "dev"):
        if getattr(options, name):
            arguments.append("--" + name.replace("_", "-"))
    arguments += address_arguments(options.liveness)
    for name in ("log_format", "peering", "priority"):
        if getattr(options, name) is not None:
            arguments += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    for namespace in options.namespaces:
        arguments += ["-n", namespace]
    for module in options.modules:
        arguments += ["-m", module]
    for path in options.paths:
        arguments += ["--python", path]
    return arguments


def _set_environment(options: argparse.Namespace) -> None:
    """Pass on what `setpoint run` has no flags for."""
    if options.log_prefix is not None:
        os.environ["KOPF_RUN_LOG_PREFIX"] = str(options.log_prefix).lower()
    if options.log_refkey:
        os.environ["KOPF_RUN_LOG_REFKEY"] = options.log_refkey


def _execute(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def _variable(name: str) -> Optional[str]:
    return os.environ.get(f"KOPF_RUN_{name.upper()}") or None


def _is_set(name: str) -> bool:
    return (_variable(name) or "").lower() in ("1", "true", "yes", "on")


def _list(name: str) -> list[str]:
    return (_variable(name) or "").split()


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
