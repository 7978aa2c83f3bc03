"""The command line of `python -m setpoint`. Setpoint starts it; people type `setpoint run --python`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from typing import Optional

from setpoint._serve.application import Application
from setpoint._serve.guard import Endpoint
from setpoint._serve.loading import LoadError, load
from setpoint._serve.server import serve

logger = logging.getLogger("setpoint")


# A file or module cannot be imported: `setpoint dev` waits for a change.
EXIT_IMPORT = 3


def main(arguments: Sequence[str]) -> int:
    """Run a command; the result is the exit code."""
    options = _parser().parse_args(arguments)
    return run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m setpoint", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="import files and serve their handlers", allow_abbrev=False)
    where = serving.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", metavar="PATH", help="listen on this Unix socket")
    where.add_argument("--listen", metavar="HOST:PORT", help="listen on this address; needs --token-file")
    serving.add_argument(
        "--token-file", metavar="FILE", help="with --listen: a file with the token that setpoint has by --operator-token-file"
    )
    serving.add_argument(
        "--describe", action="store_true", help="for what Setpoint reads without running the operator: no handler is called"
    )
    _add_options(serving)
    return parser


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-m", "--module", action="append", default=[], dest="modules", help="import this module too")
    command.add_argument("--name", help="the name of the operator; default: that of the first file or module")
    command.add_argument("--log-format", default="full", choices=["full", "plain", "json"])
    command.add_argument("-v", "--verbose", action="store_true", help="log debug messages")
    command.add_argument("-d", "--debug", action="store_true", help="log debug messages of asyncio too")
    command.add_argument("-q", "--quiet", action="store_true", help="log warnings and errors only")
    command.add_argument("files", nargs="*", metavar="FILE", help="Python files with handlers")


def run(options: argparse.Namespace) -> int:
    """Import the files and serve or print what they declare."""
    # Imported here, so that --help needs none of it.
    from setpoint._engine.errors import DeclarationError
    from setpoint._engine.login import configure_clients_on_import
    from setpoint._engine.logs import LogFormat, configure
    from setpoint._engine.operator import Description, Operator, StartError
    from setpoint._engine.registry import get_default_registry

    configure(
        debug=options.debug,
        verbose=options.verbose,
        quiet=options.quiet,
        log_format=LogFormat[options.log_format.upper()],
        log_prefix={"true": True, "false": False}.get(os.environ.get("KOPF_RUN_LOG_PREFIX", "")),
        log_refkey=os.environ.get("KOPF_RUN_LOG_REFKEY"),
    )
    if not options.files and not options.modules:
        return _fail("nothing to serve: name a file, or a module with -m")
    configure_clients_on_import()
    try:
        endpoint = _endpoint(options)
        load(options.files, options.modules)
        operator = Operator(get_default_registry(), name=options.name or operator_name(options))
        application: Application = operator
        if options.describe:
            application = Description(operator)
        asyncio.run(serve(application, endpoint))
    except (LoadError, DeclarationError) as error:
        # Only another state of the files helps.
        return _fail(str(error), EXIT_IMPORT)
    except (StartError, OSError, ValueError) as error:
        return _fail(str(error))
    return _end()


def _endpoint(options: argparse.Namespace) -> Endpoint:
    if options.socket:
        return Endpoint(socket=options.socket)
    host, _, port = options.listen.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"--listen {options.listen}: must be HOST:PORT, such as 127.0.0.1:8000")
    return Endpoint(host=host.strip("[]") or "0.0.0.0", port=int(port), token=_token(options.token_file))


def _token(path: Optional[str]) -> str:
    if not path:
        raise ValueError("--listen needs --token-file: any client of the port could run the handlers; --socket needs none")
    with open(path, encoding="utf-8") as file:
        token = file.read().strip()
    if not token:
        raise ValueError(f"--token-file {path}: the file is empty")
    return token


def operator_name(options: argparse.Namespace) -> str:
    """Return the name of the operator: records and finalizers on objects have it in their names."""
    first = options.files[0] if options.files else options.modules[0].replace(".", "/") + ".py"
    folder, stem = os.path.split(os.path.abspath(first))
    stem = os.path.splitext(stem)[0]
    if stem in ("__init__", "__main__"):
        stem = os.path.basename(folder)
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "operator"


def _fail(message: str, code: int = 1) -> int:
    print(f"error: {message}", file=sys.stderr, flush=True)
    return code


def _end() -> int:
    """Return the exit code, or end the process at once if threads of handlers would keep it alive."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
    if others:
        os._exit(0)
    return 0
