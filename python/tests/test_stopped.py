import asyncio
import threading
import time
import unittest

from setpoint._engine.stopped import AsyncDaemonStopped, DaemonStoppingReason, Stopper, SyncDaemonStopped

DELETED = DaemonStoppingReason.RESOURCE_DELETED


class StoppedTest(unittest.TestCase):
    def test_reasons_add_up(self):
        stopper = Stopper()
        stopped = SyncDaemonStopped(stopper)
        self.assertFalse(stopped)
        self.assertIsNone(stopped.reason)
        stopper.set(DELETED)
        since = stopper.since
        stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
        self.assertTrue(stopped)
        self.assertTrue(stopped.is_set())
        self.assertIn(DELETED, stopped.reason)
        self.assertTrue(stopper.is_set(DaemonStoppingReason.DAEMON_CANCELLED))
        self.assertFalse(stopper.is_set(DaemonStoppingReason.FILTERS_MISMATCH))
        self.assertEqual(since, stopper.since)

    def test_a_thread_waits(self):
        stopper = Stopper()
        stopped = SyncDaemonStopped(stopper)
        self.assertFalse(stopped.wait(0.001))
        threading.Timer(0.01, stopper.set, [DELETED]).start()
        self.assertTrue(stopped.wait(60))
        self.assertIs(stopped, stopped.wait())

    def test_a_task_waits(self):
        async def daemon(stopper):
            stopped = AsyncDaemonStopped(stopper)
            self.assertFalse(await stopped.wait(0.001))
            self.assertEqual([], stopper._futures)  # Nothing remains of a wait in vain.
            threading.Timer(0.01, stopper.set, [DELETED]).start()
            self.assertIs(stopped, await stopped.wait(60))
            self.assertTrue(await stopped.wait(60))  # At once.

        started = time.monotonic()
        asyncio.run(daemon(Stopper()))
        self.assertLess(time.monotonic() - started, 30)

    def test_a_cancelled_task_leaves_nothing(self):
        async def main():
            stopper = Stopper()
            task = asyncio.ensure_future(self._wait(stopper))
            await asyncio.sleep(0)
            self.assertEqual(1, len(stopper._futures))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual([], stopper._futures)

        asyncio.run(main())

    async def _wait(self, stopper):
        await AsyncDaemonStopped(stopper).wait()

    def test_the_loop_has_ended(self):
        stopper = Stopper()
        loop = asyncio.new_event_loop()

        async def register():
            stopper.future()

        loop.run_until_complete(register())
        loop.close()
        stopper.set(DELETED)
        self.assertTrue(stopper.is_set())

    def test_stopped_itself_cannot_be_awaited(self):
        async def daemon():
            await AsyncDaemonStopped(Stopper())

        with self.assertRaisesRegex(NotImplementedError, r"await stopped.wait\(\)"):
            asyncio.run(daemon())


if __name__ == "__main__":
    unittest.main()
