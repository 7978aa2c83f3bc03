"""Daemons, by the calls of Setpoint."""

import asyncio
import json
import threading
import time
import unittest

from setpoint._engine import daemons
from setpoint._serve.message import Request
from setpoint.kopf import DaemonStoppingReason
from tests.harness import Script, example


class Daemon:
    """The daemon of a script, called as Setpoint calls it."""

    def __init__(self, test, source, name="watch"):
        self.script = Script(source)
        test.addCleanup(self.script.close)
        self.names = self.script.names
        self.name = name

    def call(self, daemon, obj=None, **fields):
        return self.script.call(self.name, "Daemon", obj or example(), daemon=daemon, **fields)

    def stop(self, obj=None):
        """Stop the daemon as Setpoint does, which calls until it has finished."""
        for _ in range(1000):
            response = self.call("Stop", obj)
            if response:
                return response
        raise AssertionError("the daemon does not stop")

    def status(self, daemon):
        url = self.script.handlers()[self.name]["webhook"]["url"]
        return self.script.request("POST", url, {"reason": "Daemon", "object": example(), "daemon": daemon})[0]

    def wait(self, condition, message="the condition"):
        """Let the daemon run until something is so."""

        async def wait():
            deadline = time.monotonic() + 60
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"waited in vain for {message}")
                await asyncio.sleep(0.001)

        self.script._loop.run_until_complete(wait())

    def notifications(self):
        """The lines that Setpoint has not read."""
        return [json.loads(line) for line in self.script.operator.notifications._waiting]

    def ended(self):
        return bool(self.notifications())


DELETED = example(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})


class Life(unittest.TestCase):
    def test_a_result_without_a_json_form_is_an_error_for_good(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            async def watch(**_): return object()
        """)
        daemon.call("Start")
        daemon.wait(daemon.ended)
        error = daemon.call("Collect")["error"]
        self.assertIn("its result cannot be written: status.watch", error["message"])
        self.assertTrue(error["permanent"])

    def test_a_thread_runs_until_it_is_stopped(self):
        daemon = Daemon(self, """
            seen = []
            @kopf.daemon('examples')
            def watch(spec, stopped, patch, **_):
                while not stopped:
                    seen.append(spec['size'])
                    stopped.wait(0.005)
                patch.status['reason'] = str(stopped.reason)
                return {'rounds': 7}
        """)
        seen = daemon.names["seen"]
        self.assertEqual({}, daemon.call("Start"))
        daemon.wait(lambda: 1 in seen)
        self.assertEqual({}, daemon.call("Update", example(spec={"size": 2})))
        daemon.wait(lambda: 2 in seen, "the update")
        self.assertEqual({}, daemon.call("Start", example(spec={"size": 3})))
        daemon.wait(lambda: 3 in seen, "a second start, which is an update")
        response = daemon.stop(DELETED)
        self.assertTrue(response["finished"])
        self.assertEqual({"rounds": 7}, response["status"]["watch"])
        self.assertIn("RESOURCE_DELETED", response["status"]["reason"])

    def test_a_task_runs_until_it_is_stopped(self):
        daemon = Daemon(self, """
            ended = []
            @kopf.daemon('examples')
            async def watch(stopped, **_):
                await stopped.wait()
                ended.append(stopped.reason)
        """)
        daemon.call("Start")
        self.assertEqual({"finished": True}, daemon.stop(DELETED))
        self.assertIn(DaemonStoppingReason.RESOURCE_DELETED, daemon.names["ended"][0])

    def test_the_end_is_notified_and_collected_once(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            async def watch(patch, **_):
                patch.spec['seen'] = True
                return 'done'
        """)
        daemon.call("Start")
        daemon.wait(daemon.ended)
        line = {"apiVersion": "example.com/v1", "kind": "Example", "namespace": "shop", "name": "one", "uid": "uid-1"}
        self.assertEqual([line], daemon.notifications())
        self.assertEqual(
            {"patch": {"spec": {"seen": True}}, "status": {"watch": "done"}, "finished": True}, daemon.call("Collect")
        )
        self.assertEqual(404, daemon.status("Collect"))
        self.assertEqual({"finished": True}, daemon.call("Start"))

    def test_calls_about_a_daemon_that_does_not_run(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            async def watch(**_):
                pass
        """)
        self.assertEqual(404, daemon.status("Update"))
        self.assertEqual(404, daemon.status("Collect"))
        self.assertEqual({"finished": True}, daemon.stop())

    def test_initial_delay(self):
        daemon = Daemon(self, """
            calls = []
            @kopf.daemon('examples', initial_delay=lambda spec, **_: spec['size'] * 1000)
            def watch(**_):
                calls.append(1)
        """)
        daemon.call("Start")
        self.assertEqual({"finished": True}, daemon.stop())
        self.assertEqual([], daemon.names["calls"])

    def test_filters(self):
        daemon = Daemon(self, """
            reasons = []
            @kopf.daemon('examples', when=lambda spec, **_: spec['size'] > 0)
            async def watch(stopped, **_):
                await stopped.wait()
                reasons.append(stopped.reason)
        """)
        handler = daemon.script.handlers()["watch"]
        self.assertTrue(handler["conditional"])
        self.assertEqual("36s", handler["daemon"]["stopTimeout"])
        none = example(spec={"size": 0})
        self.assertEqual({"applicable": False}, daemon.script.call("watch", "Match", none))
        self.assertEqual({"applicable": True}, daemon.script.call("watch", "Match"))
        self.assertEqual({"applicable": False}, daemon.call("Start", none))
        daemon.call("Start")
        self.assertEqual({"applicable": False}, daemon.call("Update", none))
        self.assertTrue(daemon.stop(none)["finished"])
        self.assertIn(DaemonStoppingReason.FILTERS_MISMATCH, daemon.names["reasons"][0])
        self.assertEqual({}, daemon.call("Start"))  # It matches again.
        daemon.call("Stop")
        self.assertIn(DaemonStoppingReason.OPERATOR_EXITING, daemon.names["reasons"][1])

    def test_a_filter_that_fails(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples', when=lambda spec, **_: spec['size'] > 0)
            async def watch(stopped, **_):
                await stopped.wait()
        """)
        daemon.call("Start")
        broken = example(spec={})
        with self.assertLogs("kopf", "ERROR"):
            self.assertIn("KeyError", daemon.call("Update", broken)["error"]["message"])
        self.assertEqual({"finished": True}, daemon.stop(broken))

    def test_many_threads_at_once(self):
        daemon = Daemon(self, """
            running = set()
            @kopf.daemon('examples')
            def watch(stopped, name, **_):
                running.add(name)
                stopped.wait()
        """)
        objects = [example(metadata={"name": f"o{i}", "uid": f"u{i}"}) for i in range(100)]
        for obj in objects:
            daemon.call("Start", obj)
        daemon.wait(lambda: len(daemon.names["running"]) == 100)
        for obj in objects:
            self.assertTrue(daemon.stop(obj)["finished"])

    def test_the_process_ends(self):
        daemon = Daemon(self, """
            reasons = []
            @kopf.daemon('examples')
            def watch(stopped, **_):
                stopped.wait()
                reasons.append(stopped.reason)
        """)
        daemon.call("Start")
        daemon.script._loop.run_until_complete(daemon.script.operator.daemons.close())
        self.assertIn(DaemonStoppingReason.OPERATOR_EXITING, daemon.names["reasons"][0])


class Errors(unittest.TestCase):
    SOURCE = """
        retries = []
        @kopf.daemon('examples', retries=3, backoff=5)
        async def watch(retry, patch, spec, **_):
            retries.append(retry)
            patch.status['tried'] = True
            raise {{'a': kopf.TemporaryError('later', delay=0.5), 'b': ValueError('bad'), 'c': kopf.PermanentError('no')}}[{!r}]
    """

    def run_once(self, error, **fields):
        daemon = Daemon(self, self.SOURCE.format(error))
        daemon.call("Start", **fields)
        daemon.wait(daemon.ended)
        return daemon, daemon.call("Collect")

    def test_a_temporary_error(self):
        daemon, response = self.run_once("a")
        written = {"status": {"tried": True}}
        self.assertEqual({**written, "error": {"message": "later"}, "retryAfterSeconds": 0.5}, response)
        daemon.call("Start", attempt=1, firstAttempt="2026-01-01T00:00:00Z")
        daemon.wait(lambda: daemon.names["retries"] == [0, 1])

    def test_another_exception(self):
        _, response = self.run_once("b")
        self.assertEqual(5, response["retryAfterSeconds"])
        self.assertEqual("ValueError: bad", response["error"]["message"])

    def test_a_permanent_error(self):
        daemon, response = self.run_once("c")
        self.assertEqual({"message": "no", "permanent": True}, response["error"])
        self.assertEqual({"finished": True}, daemon.call("Start"))

    def test_the_last_attempt(self):
        _, response = self.run_once("a", attempt=2)
        self.assertTrue(response["error"]["permanent"])

    def test_an_error_while_it_stops_is_no_failure(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            def watch(stopped, patch, **_):
                stopped.wait()
                patch.status['last'] = 1
                raise ValueError("bad")
        """)
        daemon.call("Start")
        self.assertEqual({"status": {"last": 1}, "finished": True}, daemon.stop())


class Stubborn(unittest.TestCase):
    """Daemons that do not stop."""

    def setUp(self):
        self.release = threading.Event()
        self.addCleanup(self.release.set)

    def start(self, source):
        daemon = Daemon(self, source)
        daemon.names["release"] = self.release
        daemon.call("Start")
        return daemon

    def test_a_task_is_cancelled(self):
        daemon = self.start("""
            import asyncio
            cancelled = []
            @kopf.daemon('examples', cancellation_timeout=60)
            async def watch(stopped, **_):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(stopped.reason)
                    raise
        """)
        daemon.wait(lambda: True)
        self.assertEqual({"finished": True}, daemon.stop(DELETED))
        self.assertIn(DaemonStoppingReason.DAEMON_CANCELLED, daemon.names["cancelled"][0])

    def test_a_backoff_before_it_is_cancelled(self):
        daemon = self.start("""
            reasons = []
            @kopf.daemon('examples', cancellation_backoff=60, cancellation_timeout=1)
            async def watch(stopped, **_):
                await stopped.wait()
                while kopf.DaemonStoppingReason.DAEMON_SIGNALLED not in stopped.reason:
                    await asyncio.sleep(0)
                reasons.append(stopped.reason)
            import asyncio
        """)
        self.assertEqual({"finished": True}, daemon.stop(DELETED))
        self.assertNotIn(DaemonStoppingReason.DAEMON_CANCELLED, daemon.names["reasons"][0])

    def test_a_thread_is_abandoned(self):
        daemon = self.start("""
            runs = []
            @kopf.daemon('examples', cancellation_timeout=0.01)
            def watch(**_):
                runs.append(1)
                release.wait()
        """)
        daemon.wait(lambda: daemon.names["runs"] == [1])
        with self.assertLogs("kopf.objects", "WARNING") as logs:
            daemon.call("Stop")
            daemon.wait(daemon.ended, "the notification that it is abandoned")
        self.assertIn("operator.py", logs.output[0])
        response = daemon.call("Stop")
        self.assertTrue(response["finished"])
        self.assertEqual("DaemonAbandoned", response["events"][0]["reason"])
        # Never two of one object.
        self.assertEqual("Daemon 'watch' has not stopped yet", daemon.call("Start")["error"]["message"])
        self.assertEqual([1], daemon.names["runs"])
        self.release.set()
        daemon.wait(lambda: not daemon.script.operator.daemons._runs)
        daemon.call("Start")
        daemon.wait(lambda: daemon.names["runs"] == [1, 1])

    def test_without_a_cancellation_timeout(self):
        self.addCleanup(setattr, daemons, "STOP_TIMEOUT", daemons.STOP_TIMEOUT)
        daemons.STOP_TIMEOUT = 0.01
        daemon = self.start("""
            import asyncio
            @kopf.daemon('examples')
            async def watch(**_):
                await asyncio.Event().wait()
        """)
        self.assertEqual({"finished": True}, daemon.stop(DELETED))


class Helpers(unittest.TestCase):
    def test_events_are_sent_at_once(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            def watch(body, stopped, **_):
                kopf.info(body, reason='Started', message='it runs')
                stopped.wait()
        """)
        daemon.call("Start")
        daemon.wait(daemon.ended)
        event = daemon.notifications()[0]
        self.assertEqual({"type": "Normal", "reason": "Started", "message": "it runs"}, event["event"])
        self.assertEqual("one", event["name"])
        daemon.call("Stop")

    def test_adopt_in_a_thread(self):
        daemon = Daemon(self, """
            child = {}
            @kopf.daemon('examples')
            def watch(**_):
                kopf.adopt(child)
        """)
        daemon.call("Start")
        daemon.wait(daemon.ended)
        self.assertEqual("shop", daemon.names["child"]["metadata"]["namespace"])

    def test_functions_of_the_patch_see_the_live_object(self):
        daemon = Daemon(self, """
            @kopf.daemon('examples')
            def watch(patch, stopped, **_):
                patch.fns.append(lambda body: body['spec']['list'].append(3))
                stopped.wait()
        """)
        daemon.call("Start", example(spec={"list": [1]}))
        daemon.call("Update", example(spec={"list": [1, 2]}))
        response = daemon.call("Stop", example(spec={"list": [1, 2]}))
        self.assertEqual({"spec": {"list": [1, 2, 3]}}, response["patch"])


if __name__ == "__main__":
    unittest.main()
